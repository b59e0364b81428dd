// SPDX-License-Identifier: Apache-2.0
// The rsockets of this process by their numbers. A child of fork() begins with none: its parent's
// are not its.
#pragma once

#include <array>
#include <vector>

#include "base/mutex.h"
#include "rdmacm/process.h"
#include "rsocket/socket.h"

namespace verbena::rsocket {

// A socket that stays while this does.
class Held {
 public:
  Held() = default;
  explicit Held(Socket* socket) : socket_(socket) {}  // was held already
  Held(Held&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(socket_, other.socket_);
    return *this;
  }
  ~Held() {
    if (socket_ != nullptr) socket_->drop();
  }
  explicit operator bool() const { return socket_ != nullptr; }
  Socket* operator->() const { return socket_; }
  [[nodiscard]] Socket* get() const { return socket_; }

 private:
  Socket* socket_ = nullptr;
};

class Registry {
 public:
  [[nodiscard]] static Registry& of_process() { return rdmacm::only<Registry>(); }

  // Takes over the caller's hold.
  void add(Socket* socket);
  [[nodiscard]] Held find(int number);
  [[nodiscard]] Held remove(int number);
  [[nodiscard]] std::vector<Held> all();

 private:
  // By the low bits of the number, so that threads with sockets of their own do not meet.
  static constexpr size_t kParts = 32;
  struct Part {
    Mutex mutex;
    std::vector<Socket*> sockets VERBENA_GUARDED_BY(mutex);
  };
  std::array<Part, kParts> parts_;
};

}  // namespace verbena::rsocket
