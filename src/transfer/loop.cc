// SPDX-License-Identifier: Apache-2.0
#include "transfer/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace verbena::transfer {
namespace {

constexpr Duration kBusyPoll = 50 * kMicrosecond;
constexpr Duration kLongestSleep = kSecond;
constexpr size_t kMessageCost = 64;

}  // namespace

Result<std::unique_ptr<FabricMemory>, std::string> FabricMemory::make(fabric::Fabric& fabric,
                                                                      size_t bytes, bool remote) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(fmt::format("there is no memory of {} bytes: {}", bytes, std::strerror(errno)));
  }
  auto key = fabric.add_memory(static_cast<uint8_t*>(memory), bytes, remote);
  if (!key) {
    munmap(memory, bytes);
    return fail(key.error());
  }
  return std::unique_ptr<FabricMemory>(
      new FabricMemory(fabric, {static_cast<uint8_t*>(memory), bytes}, *key));
}

FabricMemory::~FabricMemory() {
  fabric_.remove_memory(key_);
  munmap(bytes_.data(), bytes_.size());
}

void Outbox::send(fabric::Fabric& fabric, fabric::ConnectionId connection,
                  std::span<const uint8_t> message) {
  waiting_.emplace_back(message.begin(), message.end());
  bytes_ += message.size() + kMessageCost;
  go_on(fabric, connection);
}

void Outbox::go_on(fabric::Fabric& fabric, fabric::ConnectionId connection) {
  while (!waiting_.empty()) {
    const auto room = fabric.message_room(connection);
    if (room.empty()) return;
    std::ranges::copy(waiting_.front(), room.begin());
    fabric.send(connection, waiting_.front().size());
    bytes_ -= waiting_.front().size() + kMessageCost;
    waiting_.pop_front();
  }
}

Time Loop::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Result<void, std::string> Loop::start(size_t workers) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) {
    return fail(fmt::format("no file descriptors: {}", std::strerror(errno)));
  }
  if (const int error = workers_.start(workers); error != 0) {
    return fail(fmt::format("no threads: {}", std::strerror(error)));
  }
  for (const int fd : {fabric_.fd(), workers_.fd(), wake_.get()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return fail(fmt::format("epoll: {}", std::strerror(errno)));
    }
  }
  return {};
}

void Loop::wake() const {
  const uint64_t one = 1;
  static_cast<void>(!write(wake_.get(), &one, sizeof one));
}

void Loop::run(fabric::Handler& handler, const std::function<void()>& each,
               const std::function<bool()>& over, const std::function<Time()>& next) {
  Time worked = now();
  while (!over()) {
    const size_t done = fabric_.poll(handler) + workers_.collect();
    each();
    fabric_.flush();
    const Time time = now();
    if (done > 0) {
      worked = time;
    } else if (time - worked < kBusyPoll) {
      std::this_thread::yield();
    } else if (!over()) {
      sleep(handler, std::min(next(), time + kLongestSleep));
    }
  }
}

void Loop::sleep(fabric::Handler& handler, Time until) {
  fabric_.arm();
  if (fabric_.poll(handler) + workers_.collect() > 0) return;
  const Duration span = std::max<Duration>(until - now(), 0);
  std::array<epoll_event, 4> events;
  const int got = epoll_wait(epoll_.get(), events.data(), events.size(),
                             static_cast<int>((span + kMillisecond - 1) / kMillisecond));
  for (int i = 0; i < got; ++i) {
    uint64_t count = 0;
    if (events[static_cast<size_t>(i)].data.fd == wake_.get()) {
      static_cast<void>(!read(wake_.get(), &count, sizeof count));
    }
  }
  fabric_.woken();
}

}  // namespace verbena::transfer
