// SPDX-License-Identifier: Apache-2.0
// What is measured of the device. Each function is one end of a measurement.
#pragma once

#include <cstdint>
#include <vector>

#include "common/side.h"

namespace verbena::bench {

// `total_bytes` in messages of `message_bytes`, a fixed number of messages under way, over
// options.queue_pairs in turn: bytes per second, and the time it took.
[[nodiscard]] std::vector<double> bandwidth(Role role, const Control& control, SideOptions options,
                                            transport::SendOp op, uint32_t message_bytes,
                                            uint64_t total_bytes);

enum class Notice : uint8_t { kPollQueue, kSleepOnChannel, kSpinOnMemory };
// Fewer posts than queue entries between two completions.
inline constexpr uint32_t kSignalEvery = 64;
// Ping-pong of 8 bytes; the initiator gives one-way times in microseconds. `signal_every`: so many
// messages have one completion, which is waited for; perftest does so for each.
[[nodiscard]] std::vector<double> pingpong(Role role, const Control& control, SideOptions options,
                                           transport::SendOp op, Notice notice, uint32_t rounds,
                                           uint32_t signal_every = kSignalEvery);

// 8-byte WRITEs posted in chains, completed a chain at a time: messages per second.
[[nodiscard]] std::vector<double> small_writes(Role role, const Control& control,
                                               SideOptions options, uint32_t count);
// The same by so many threads at once, `count` each, through shared memory; of all together. Then,
// of each thousand messages: how often a thread slept for a lock, and how often one rang a doorbell
// because another had the engine's lock.
[[nodiscard]] std::vector<double> threads_of_writes(Role role, const Control& control,
                                                    uint32_t threads, uint32_t count);

// Resident bytes per connected, idle queue pair, with queues of 16 entries each way.
[[nodiscard]] std::vector<double> idle_memory(Role role, const Control& control,
                                              uint32_t queue_pairs);

}  // namespace verbena::bench
