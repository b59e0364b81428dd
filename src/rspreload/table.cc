// SPDX-License-Identifier: Apache-2.0
#include "rspreload/table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include <pthread.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "base/mutex.h"

namespace verbena::rspreload {
namespace {

constexpr size_t kPerPage = 1024;
constexpr size_t kPages = 1024;
constexpr size_t kLocks = 32;

using Page = std::array<std::atomic<Entry*>, kPerPage>;

// Pages are never given back.
constinit std::array<std::atomic<Page*>, kPages> pages{};
// Of the entries whose numbers have these low bits: between finding one and holding it.
constinit std::array<Mutex, kLocks> locks{};

// The process whose table this is.
constinit std::atomic<pid_t> owner{0};

[[nodiscard]] bool is_owner() { return owner.load(std::memory_order_relaxed) == ::getpid(); }

// The parent's other threads are not there to unlock, and its rsockets are not the child's. What
// waits for the fork stays.
void begin_anew() {
  for (Mutex& lock : locks) new (&lock) Mutex;
  for (const std::atomic<Page*>& page : pages) {
    Page* const entries = page.load(std::memory_order_relaxed);
    if (entries == nullptr) continue;
    for (std::atomic<Entry*>& place : *entries) {
      Entry* const entry = place.load(std::memory_order_relaxed);
      if (entry == nullptr) continue;
      if (entry->socket() >= 0) place.store(nullptr, std::memory_order_relaxed);
      new (&entry->turning) Mutex;
    }
  }
  owner.store(::getpid(), std::memory_order_relaxed);
}

[[gnu::constructor]] void begin() {
  owner.store(::getpid(), std::memory_order_relaxed);
  (void)::pthread_atfork(nullptr, nullptr, begin_anew);
}

[[nodiscard]] std::atomic<Entry*>* place_of(int fd) {
  const auto number = static_cast<size_t>(fd);
  if (fd < 0 || number >= kPages * kPerPage) return nullptr;
  Page* const page = pages[number / kPerPage].load(std::memory_order_acquire);
  return page != nullptr ? &(*page)[number % kPerPage] : nullptr;
}

[[nodiscard]] Mutex& lock_of(int fd) { return locks[static_cast<size_t>(fd) % kLocks]; }

[[nodiscard]] bool make_page(int fd) {
  if (fd < 0 || static_cast<size_t>(fd) >= kPages * kPerPage) return false;
  std::atomic<Page*>& place = pages[static_cast<size_t>(fd) / kPerPage];
  if (place.load(std::memory_order_acquire) != nullptr) return true;
  auto* const page = new (std::nothrow) Page{};
  if (page == nullptr) return false;
  Page* none = nullptr;
  if (!place.compare_exchange_strong(none, page, std::memory_order_acq_rel)) delete page;
  return true;
}

}  // namespace

HeldEntry::~HeldEntry() {
  if (entry_ == nullptr || !entry_->drop()) return;
  const int error = errno;
  if (entry_->socket() >= 0) (void)rclose(entry_->socket());
  delete entry_;
  errno = error;
}

HeldEntry find(int fd) {
  std::atomic<Entry*>* const place = place_of(fd);
  Entry* entry = place != nullptr ? place->load(std::memory_order_acquire) : nullptr;
  if (entry == nullptr || !is_owner()) return {};
  const MutexLock lock(lock_of(fd));
  entry = place->load(std::memory_order_relaxed);
  if (entry == nullptr) return {};
  entry->hold();
  return HeldEntry(entry);
}

bool insert(int fd, Entry* entry) {
  if (!is_owner() || !make_page(fd)) return false;
  HeldEntry before = remove(fd);  // closed behind our back
  const MutexLock lock(lock_of(fd));
  place_of(fd)->store(entry, std::memory_order_release);
  return true;
}

HeldEntry remove(int fd) {
  std::atomic<Entry*>* const place = place_of(fd);
  if (place == nullptr || place->load(std::memory_order_acquire) == nullptr) return {};
  if (!is_owner()) return {};
  const MutexLock lock(lock_of(fd));
  return HeldEntry(place->exchange(nullptr, std::memory_order_acq_rel));
}

void remove_all(unsigned first, unsigned last) {
  for (size_t page = first / kPerPage; page < kPages && page * kPerPage <= last; ++page) {
    if (pages[page].load(std::memory_order_acquire) == nullptr) continue;
    const size_t begin = std::max<size_t>(first, page * kPerPage);
    const size_t end = std::min<size_t>(size_t{last} + 1, (page + 1) * kPerPage);
    for (size_t fd = begin; fd < end; ++fd) (void)remove(static_cast<int>(fd));
  }
}

}  // namespace verbena::rspreload
