// SPDX-License-Identifier: Apache-2.0
// Which of the program's descriptors stand for rsockets.
//
// The descriptor itself is a socket of the kernel's, of the kind that the program asked for, and
// never connected: what the C library does behind our back (fstat, close in a child) does no harm
// to it, and if the peer has no rsocket it is what the program goes on with.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <sys/socket.h>

#include "base/mutex.h"

namespace verbena::rspreload {

// What a descriptor is. Those of the kernel wait for a fork: an rsocket cannot be handed to a
// child, so that it is made when the connection is first used (fork.h).
enum class Kind : uint8_t { kRsocket, kKernels, kListening, kConnected, kAccepted };

class Entry {
 public:
  Entry(Kind kind, int socket) : kind_(kind), socket_(socket) {}

  // The rsocket; -1 while there is none.
  [[nodiscard]] int socket() const { return socket_.load(std::memory_order_acquire); }
  void drop_socket() { socket_.store(-1, std::memory_order_release); }
  [[nodiscard]] Kind kind() const { return kind_.load(std::memory_order_acquire); }
  // Counts the calls that moved data, or tried to; when they are done.
  [[nodiscard]] uint32_t uses() const { return uses_.load(); }
  // Whether somebody waits for it, and called mute(). In one order with mute() and uses() there:
  // one of the two sees the other.
  [[nodiscard]] bool count_use() {
    uses_.fetch_add(1);
    return muted_.load() && muted_.exchange(false);
  }
  void mute() { muted_.store(true); }
  void become(Kind kind) { kind_.store(kind, std::memory_order_release); }
  void become_rsocket(int socket) {
    socket_.store(socket, std::memory_order_release);
    become(Kind::kRsocket);
  }

  // For who turns it into an rsocket: kind and socket change from there on under it.
  Mutex turning;
  // Where bind() put it, for who has to do so with the kernel's socket.
  sockaddr_storage bound{};
  socklen_t bound_length = 0;

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  // Whether that was the last one. Descriptors and calls hold it.
  [[nodiscard]] bool drop() { return holders_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 private:
  std::atomic<Kind> kind_;
  std::atomic<int> socket_;
  std::atomic<uint32_t> uses_{0};
  std::atomic<bool> muted_{false};
  std::atomic<uint32_t> holders_{1};
};

// An entry that stays while this does; the last one to hold it closes the rsocket. Leaves errno
// alone.
class HeldEntry {
 public:
  HeldEntry() = default;
  explicit HeldEntry(Entry* entry) : entry_(entry) {}  // was held already
  HeldEntry(HeldEntry&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  HeldEntry& operator=(HeldEntry&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~HeldEntry();
  explicit operator bool() const { return entry_ != nullptr; }
  Entry* operator->() const { return entry_; }
  Entry& operator*() const { return *entry_; }
  [[nodiscard]] Entry* get() const { return entry_; }

 private:
  Entry* entry_ = nullptr;
};

// A child of fork() has none that is an rsocket already; one of vfork(), which has its parent's
// memory, sees none.
//
// One look without a lock tells that a descriptor is none of ours, which nearly all are.
[[nodiscard]] HeldEntry find(int fd);
// Takes over the caller's hold. False if there is no room; the hold stays the caller's then.
[[nodiscard]] bool insert(int fd, Entry* entry);
[[nodiscard]] HeldEntry remove(int fd);
// Of all these descriptors; `last` included.
void remove_all(unsigned first, unsigned last);

}  // namespace verbena::rspreload
