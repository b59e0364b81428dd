// SPDX-License-Identifier: Apache-2.0
// What the user and the administrator have said, read once: the environment (RS_SQ_SIZE,
// RS_RQ_SIZE, RS_INLINE, RDMAV_FORK_SAFE, VERBENA_QUIET) and /etc/rdma/rsocket/preload_config,
// whose lines are "program domain type protocol", each a word or *.
#pragma once

namespace verbena::rspreload {

struct Config {
  int send_places = 0;  // 0: as it is
  int receive_places = 0;
  int inline_bytes = -1;
  bool fork_support = false;
  bool quiet = false;
};
[[nodiscard]] const Config& config();

// Whether a socket of this kind of this program's is to be an rsocket.
[[nodiscard]] bool is_wanted(int domain, int type, int protocol);

}  // namespace verbena::rspreload
