// SPDX-License-Identifier: Apache-2.0
// How the drop-in libraries define the entry points of rdma-core's headers.
#pragma once

#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))
