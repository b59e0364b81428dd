// SPDX-License-Identifier: Apache-2.0
// The yardsticks: the same exchange over bare UDP sockets on loopback, in the same run. Each
// function is one end; `control` joins the two for a common start.
#pragma once

#include <cstdint>
#include <vector>

namespace verbena::bench {

enum class Waiting : uint8_t { kPolling, kBlocking };

// Ping-pong of `bytes`; the initiator gives one-way times in microseconds.
[[nodiscard]] std::vector<double> udp_pingpong(bool initiator, int control, uint32_t bytes,
                                               uint32_t rounds, Waiting waiting);
// GSO sends of full batches as fast as credits in shared memory allow: bytes per second that
// arrived.
[[nodiscard]] double udp_gso_blast(bool initiator, int control, uint32_t packet_bytes,
                                   uint64_t total_bytes);
// One datagram a send: datagrams per second that arrived.
[[nodiscard]] double udp_datagrams(bool initiator, int control, uint32_t bytes, uint32_t count);

}  // namespace verbena::bench
