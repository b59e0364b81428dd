// SPDX-License-Identifier: Apache-2.0
#include "progress_sim/scheduler.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"

namespace verbena::progress_sim {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kMostStores = 8;  // in a buffer

// Stacks are used again: a world is small and there are many.
std::vector<void*> spare_stacks;

[[nodiscard]] void* take_stack() {
  if (spare_stacks.empty()) {
    void* const made = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    VERBENA_CHECK(made != MAP_FAILED);
    return made;
  }
  void* const stack = spare_stacks.back();
  spare_stacks.pop_back();
  return stack;
}

}  // namespace

// Not through the hooks.
bool Scheduler::is_readable(std::span<const int> fds) {
  std::array<pollfd, 64> set{};
  VERBENA_CHECK(fds.size() <= set.size());
  for (size_t i = 0; i < fds.size(); ++i) set[i] = {fds[i], POLLIN, 0};
  const timespec now{};
  return ::syscall(SYS_ppoll, set.data(), fds.size(), &now, nullptr, 0) > 0;
}

Scheduler::Scheduler(uint64_t seed) : random_(seed), now_(kSecond) {
  // Some worlds run each thread for long, some for hardly any steps.
  constexpr std::array<uint32_t, 4> kStay{500'000, 800'000, 950'000, 990'000};
  stay_ppm_ = kStay[random_.below(kStay.size())];
  // And some have cores that keep their stores for long.
  constexpr std::array<uint32_t, 3> kKeeps{2, 16, 128};
  keeps_ = kKeeps[random_.below(kKeeps.size())];
  in_order_ = random_.below(2) == 0;
}

Scheduler::~Scheduler() {
  for (const auto& fiber : fibers_) spare_stacks.push_back(fiber->stack);
}

void Scheduler::spawn(uint32_t process, std::string name, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->name = std::move(name);
  fiber->process = process;
  fiber->body = std::move(body);
  fiber->stack = take_stack();
  ::getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  fiber->context.uc_link = &main_;
  ::makecontext(&fiber->context, &Scheduler::enter, 0);
  fibers_.push_back(std::move(fiber));
}

void Scheduler::enter() {
  Scheduler& self = *current_;
  self.running_->body();
  self.drain();
  self.running_->state = State::kDone;
}

// --- the loop

bool Scheduler::is_held(const void* mutex) const {
  return std::ranges::find(held_, mutex) != held_.end();
}

bool Scheduler::is_locked(const void* object, size_t bytes) const {
  const auto* const begin = static_cast<const uint8_t*>(object);
  return std::ranges::any_of(held_, [&](const void* mutex) {
    const auto* const at = static_cast<const uint8_t*>(mutex);
    return begin <= at && at < begin + bytes;
  });
}

bool Scheduler::can_run(const Fiber& fiber) const {
  if (fiber.killed || fiber.stopped) return false;
  switch (fiber.state) {
    case State::kReady:    return true;
    case State::kLocking:  return !is_held(fiber.mutex);
    case State::kSleeping: return fiber.ready || fiber.until <= now_;
    case State::kDone:     return false;
  }
  return false;
}

void Scheduler::look() {
  look_again_ = false;
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::kSleeping && !fiber->killed && !fiber->fds.empty()) {
      fiber->ready = is_readable(fiber->fds);
    }
  }
}

Scheduler::Fiber* Scheduler::pick() {
  Fiber* picked = nullptr;
  uint64_t seen = 0;
  for (const auto& fiber : fibers_) {
    if (can_run(*fiber) && random_.below(++seen) == 0) picked = fiber.get();
  }
  return picked;
}

void Scheduler::run(uint64_t most_steps, const std::function<bool()>& done) {
  const uint64_t end = steps_ + most_steps;
  while (steps_ < end && !done()) {
    ++steps_;
    fire_timers();
    if (look_again_) look();
    running_ = pick();
    if (running_ == nullptr) {
      Time next = kNever;
      for (const auto& [fd, at] : timers_) next = std::min(next, at);
      for (const auto& fiber : fibers_) {
        const bool sleeps = fiber->state == State::kSleeping && !fiber->killed && !fiber->stopped;
        if (sleeps) next = std::min(next, fiber->until);
      }
      if (next == kNever) return;
      now_ = next;
      continue;
    }
    running_->state = State::kReady;
    current_ = this;
    ::swapcontext(&main_, &running_->context);
    current_ = nullptr;
    running_ = nullptr;
    // A core writes its stores out by itself, soon.
    Fiber& any = *fibers_[random_.below(fibers_.size())];
    if (!any.stores.empty() && random_.below(keeps_) == 0) drain_one(any);
  }
}

void Scheduler::switch_out() { ::swapcontext(&running_->context, &main_); }

void Scheduler::set_timer(int fd, Time at) {
  if (at == kNever) {
    timers_.erase(fd);
  } else {
    timers_[fd] = at;
  }
}

void Scheduler::fire_timers() {
  std::erase_if(timers_, [this](const auto& timer) {
    if (timer.second > now_) return false;
    const uint64_t one = 1;
    (void)!::syscall(SYS_write, timer.first, &one, sizeof one);
    look_again_ = true;
    return true;
  });
}

bool Scheduler::can_go_on() const {
  if (!timers_.empty()) return true;
  return std::ranges::any_of(fibers_, [this](const auto& fiber) {
    const bool sleeps = fiber->state == State::kSleeping && !fiber->killed && !fiber->stopped;
    return can_run(*fiber) || (sleeps && fiber->until != kNever);
  });
}

std::string Scheduler::who_sleeps() const {
  std::string all;
  for (const auto& fiber : fibers_) {
    if (fiber->killed || fiber->state == State::kDone) continue;
    all += " " + fiber->name;
    if (fiber->state == State::kLocking) all += " (waits for a lock)";
    if (fiber->stopped) all += " (stopped)";
  }
  return all;
}

void Scheduler::kill(uint32_t process) {
  dead_.push_back(process);
  for (const auto& fiber : fibers_) {
    if (fiber->process != process) continue;
    drain(*fiber);
    fiber->killed = true;
  }
}

void Scheduler::kill_others() {
  for (const auto& fiber : fibers_) {
    if (fiber.get() == running_) continue;
    fiber->killed = true;
    fiber->stores.clear();  // their cores write to the parent's memory
  }
}

void Scheduler::stop(uint32_t process) {
  for (const auto& fiber : fibers_) {
    if (fiber->process != process) continue;
    drain(*fiber);
    fiber->stopped = true;
  }
}

void Scheduler::go_on(uint32_t process) {
  for (const auto& fiber : fibers_) {
    if (fiber->process == process) fiber->stopped = false;
  }
  look_again_ = true;
}

// --- the thread that runs

void Scheduler::point() {
  ++steps_;
  const uint64_t drawn = random_.next();
  now_ += 20 + static_cast<Duration>(drawn & 63);
  if (!running_->stores.empty() && (drawn >> 6 & 0xff) % keeps_ == 0) drain_one(*running_);
  if ((drawn >> 32) % 1'000'000 >= stay_ppm_) switch_out();
}

bool Scheduler::sleep(std::span<const int> fds, Time until) {
  drain();
  Fiber& self = *running_;
  // As the kernel does it: woken, a thread looks, and sleeps on if somebody else was quicker.
  bool readable = !fds.empty() && is_readable(fds);
  while (!readable && now_ < until) {
    self.fds.assign(fds.begin(), fds.end());
    self.until = until;
    self.ready = false;
    self.state = State::kSleeping;
    switch_out();
    readable = !fds.empty() && is_readable(fds);
  }
  self.fds.clear();
  self.until = kNever;
  point();
  return readable;
}

void Scheduler::lock(void* mutex) {
  point();
  drain();
  while (is_held(mutex)) {
    running_->mutex = mutex;
    running_->state = State::kLocking;
    switch_out();
  }
  held_.push_back(mutex);
}

bool Scheduler::try_lock(void* mutex) {
  point();
  drain();
  if (is_held(mutex)) return false;
  held_.push_back(mutex);
  return true;
}

void Scheduler::unlock(void* mutex) {
  point();
  drain();
  VERBENA_CHECK(std::erase(held_, mutex) == 1);
  point();
}

int Scheduler::try_lock_robust(int& owner) {
  point();
  drain();
  const int before = owner;
  const bool died =
      before != 0 && std::ranges::find(dead_, static_cast<uint32_t>(before)) != dead_.end();
  if (before != 0 && !died) return EBUSY;
  owner = static_cast<int>(running_->process);
  return died ? EOWNERDEAD : 0;
}

void Scheduler::unlock_robust(int& owner) {
  point();
  drain();
  owner = 0;
  point();
}

// --- store buffers

void Scheduler::write_out(const Store& store) { std::memcpy(store.at, &store.value, store.bytes); }

void Scheduler::drain_one(Fiber& fiber) {
  std::deque<Store>& stores = fiber.stores;
  // Any relaxed one, but the oldest of those to the same place; parts of a place are never stored.
  size_t next = in_order_ ? 0 : random_.below(stores.size());
  if (stores[next].order == Order::kRelease) next = 0;
  for (size_t i = 0; i < next; ++i) {
    if (stores[i].at == stores[next].at) next = i;
  }
  if (stores[next].order == Order::kRelease) next = 0;
  write_out(stores[next]);
  stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(next));
}

void Scheduler::drain(Fiber& fiber) {
  for (const Store& store : fiber.stores) write_out(store);
  fiber.stores.clear();
}

void Scheduler::drain() { drain(*running_); }

void Scheduler::store(void* at, uint64_t value, uint32_t bytes, Order order) {
  running_->stores.push_back({at, value, bytes, order});
  if (running_->stores.size() > kMostStores) drain_one(*running_);
}

uint64_t Scheduler::load(const void* at, uint32_t bytes) {
  // A store that covers a part of it alone is rare: all of it goes out first.
  for (const Store& store : running_->stores) {
    const auto* const begin = static_cast<const uint8_t*>(store.at);
    const auto* const wanted = static_cast<const uint8_t*>(at);
    if (begin < wanted + bytes && wanted < begin + store.bytes &&
        (begin != wanted || store.bytes != bytes)) {
      drain();
      break;
    }
  }
  const auto& stores = running_->stores;
  const auto own = std::find_if(stores.rbegin(), stores.rend(),
                                [at](const Store& store) { return store.at == at; });
  if (own != stores.rend()) return own->value;
  uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

}  // namespace verbena::progress_sim
