// SPDX-License-Identifier: Apache-2.0
// The yardsticks: the same exchange over bare UDP sockets on loopback, in the same run. Each
// function is one end.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ends.h"

namespace verbena::bench {

enum class Waiting : uint8_t { kPolling, kBlocking };

// Ping-pong of `bytes`; the initiator gives one-way times in microseconds.
[[nodiscard]] std::vector<double> udp_pingpong(Role role, const Control& control, uint32_t bytes,
                                               uint32_t rounds, Waiting waiting);
// GSO sends of full batches, as many under way as fit the receive buffer: bytes per second that
// arrived.
[[nodiscard]] std::vector<double> udp_gso_blast(Role role, const Control& control,
                                                uint32_t packet_bytes, uint64_t total_bytes);
// One datagram a send: datagrams per second that arrived.
[[nodiscard]] std::vector<double> udp_datagrams(Role role, const Control& control, uint32_t bytes,
                                                uint32_t count);

}  // namespace verbena::bench
