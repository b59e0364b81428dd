// SPDX-License-Identifier: Apache-2.0
// Rsockets among the descriptors of an epoll instance.
#pragma once

namespace verbena::rspreload {

// The descriptor is closed: if it was an epoll instance, nothing is known of it any more.
void forget_epoll(int fd);

}  // namespace verbena::rspreload
