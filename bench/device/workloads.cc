// SPDX-License-Identifier: Apache-2.0
#include "workloads.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <thread>

#include <sys/resource.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

using transport::kSignaled;
using transport::SendOp;

constexpr uint32_t kSmall = 8;
constexpr uint64_t kInbox = 1 << 20;  // where receives land
constexpr uint32_t kReceives = 64;

[[nodiscard]] uint64_t sleeps_of_thread() {
  rusage usage{};
  must(::getrusage(RUSAGE_THREAD, &usage) == 0 ? 0 : errno, "getrusage");
  return static_cast<uint64_t>(usage.ru_nvcsw);
}

[[nodiscard]] double resident_bytes() {
  FILE* const file = std::fopen("/proc/self/statm", "r");
  must(file != nullptr ? 0 : errno, "/proc/self/statm");
  unsigned long total = 0;
  unsigned long resident = 0;
  const int got = std::fscanf(file, "%lu %lu", &total, &resident);
  (void)std::fclose(file);
  must(got == 2 ? 0 : EIO, "/proc/self/statm");
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Waits until the first byte of memory is `value`, as ib_write_lat does.
void spin_for(Side& side, uint8_t value) {
  const std::atomic_ref<uint8_t> byte(*side.memory());
  while (byte.load(std::memory_order_acquire) != value) {}
}

// WRITE both ways, nobody polling for what arrives.
[[nodiscard]] std::vector<double> pingpong_on_memory(Role role, Side& side, uint32_t rounds,
                                                     uint32_t signal_every) {
  std::vector<double> times;
  times.reserve(rounds);
  for (uint32_t i = 0; i < rounds; ++i) {
    const auto value = static_cast<uint8_t>(i % 251 + 1);
    const double begin = now_s();
    if (role == Role::kTarget) spin_for(side, value);
    const bool signal = i % signal_every == signal_every - 1;
    // What is sent lies elsewhere than what arrives, as perftest has it.
    side.memory()[kInbox] = value;
    side.post(0, SendOp::kWrite, kInbox, kSmall, signal ? kSignaled : 0u, 0, 0);
    if (role == Role::kInitiator) spin_for(side, value);
    const double without = now_s();
    if (signal) side.wait(1);
    times.push_back(((signal_every == 1 ? now_s() : without) - begin) / 2 * 1e6);
  }
  return times;
}

// 8-byte WRITEs in chains, each with one completion; gives how many.
[[nodiscard]] uint32_t write_chains(Side& side, uint32_t count) {
  constexpr uint32_t kChain = 64;
  constexpr uint32_t kChains = 3;  // under way, of the 256 entries
  const uint32_t chains = count / kChain;
  const auto chain = side.chain_of(SendOp::kWrite, 0, kSmall, kChain);
  uint32_t posted = 0;
  for (uint32_t done = 0; done < chains; ++done) {
    for (; posted < chains && posted - done < kChains; ++posted) {
      side.post(0, *chain);
    }
    side.wait(1);
  }
  return chains * kChain;
}

}  // namespace

std::vector<double> bandwidth(Role role, const Control& control, SideOptions options, SendOp op,
                              uint32_t message_bytes, uint64_t total_bytes) {
  const uint32_t per_queue = std::max<uint32_t>(
      1, std::max<uint32_t>(16, (1u << 20) / message_bytes) / options.queue_pairs);
  options.depth = per_queue;
  // One buffer at each end, again and again, as perftest and iperf3 do.
  options.memory_bytes = message_bytes;
  Side side(control, options);
  if (role == Role::kTarget) return {};  // ~Side waits for the initiator
  const auto messages =
      std::max<uint64_t>(total_bytes / message_bytes, uint64_t{2} * options.queue_pairs);
  const uint64_t window = uint64_t{per_queue} * options.queue_pairs;
  uint64_t posted = 0;
  const auto post = [&](uint32_t queue_pair) {
    ++posted;
    side.post(queue_pair, op, 0, message_bytes, kSignaled);
  };
  const double begin = now_s();
  while (posted < std::min(window, messages)) {
    post(static_cast<uint32_t>(posted % options.queue_pairs));
  }
  for (uint64_t done = 0; done < messages; ++done) {
    const uint32_t queue_pair = side.wait_for_one();
    if (posted < messages) post(queue_pair);
  }
  const double took = now_s() - begin;
  return {static_cast<double>(messages) * message_bytes / took, took};
}

std::vector<double> pingpong(Role role, const Control& control, SideOptions options, SendOp op,
                             Notice notice, uint32_t rounds, uint32_t signal_every) {
  options.memory_bytes = 2 << 20;
  options.with_channel = notice == Notice::kSleepOnChannel;
  Side side(control, options);
  if (notice != Notice::kSpinOnMemory) side.post_recv(0, kInbox, kSmall, kReceives);
  control.barrier();
  if (notice == Notice::kSpinOnMemory) return pingpong_on_memory(role, side, rounds, signal_every);

  const auto next = [&] { notice == Notice::kSleepOnChannel ? side.sleep_for(1) : side.wait(1); };
  std::vector<double> times;
  times.reserve(rounds);
  uint32_t unsignaled = 0;
  for (uint32_t i = 0; i < rounds; ++i) {
    const bool signal = ++unsignaled == signal_every;
    const double begin = now_s();
    if (role == Role::kTarget) next();
    side.post(0, op, 0, kSmall, signal ? kSignaled : 0u);
    if (role == Role::kInitiator) next();
    if (signal) {
      next();
      unsignaled = 0;
    }
    // Its own completion is part of the time only where each has one.
    if (!signal || signal_every == 1) times.push_back((now_s() - begin) / 2 * 1e6);
    side.post_recv(0, kInbox, kSmall);
  }
  return times;
}

std::vector<double> small_writes(Role role, const Control& control, SideOptions options,
                                 uint32_t count) {
  options.memory_bytes = 1 << 20;
  Side side(control, options);
  if (role == Role::kTarget) return {};
  const double begin = now_s();
  const uint32_t done = write_chains(side, count);
  return {done / (now_s() - begin)};
}

std::vector<double> threads_of_writes(Role role, const Control& control, uint32_t threads,
                                      uint32_t count) {
  SideOptions options;
  options.memory_bytes = 1 << 20;
  options.link = link::LinkKind::kShared;
  std::vector<std::unique_ptr<Side>> sides;
  for (uint32_t i = 0; i < threads; ++i) sides.push_back(std::make_unique<Side>(control, options));
  if (role == Role::kTarget) return {};
  std::atomic<uint32_t> done{0};
  std::atomic<uint64_t> sleeps{0};
  const double begin = now_s();
  {
    std::vector<std::jthread> running;
    for (const auto& side : sides) {
      running.emplace_back([&, at = side.get()] {
        const uint64_t before = sleeps_of_thread();
        done += write_chains(*at, count);
        // They poll: there is nothing else that they sleep for.
        sleeps += sleeps_of_thread() - before;
      });
    }
  }
  const double thousands = done / 1000.0;
  const double rate = done / (now_s() - begin);
  const device::Engine::Quiet quiet(sides.front()->context().device().engine());
  const uint64_t doorbells = sides.front()->context().device().engine().counters().doorbells;
  return {rate, static_cast<double>(sleeps) / thousands,
          static_cast<double>(doorbells) / thousands};
}

std::vector<double> idle_memory(Role role, const Control& control, uint32_t queue_pairs) {
  SideOptions options;
  options.memory_bytes = 4096;
  options.depth = 16;
  const auto resident_with = [&](uint32_t count) {
    options.queue_pairs = count;
    const Side side(control, options);
    return resident_bytes();
  };
  const double before = resident_with(1);
  const double after = resident_with(queue_pairs);
  (void)role;
  return {(after - before) / (queue_pairs - 1)};
}

}  // namespace verbena::bench
