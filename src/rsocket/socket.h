// SPDX-License-Identifier: Apache-2.0
// What streams and datagrams have in common: a number, a mutex, options, and threads that wait.
//
// Nothing happens in the background: whoever calls takes completions and events, for all
// (progress). Several threads may sleep for one socket. Each sleeps on the same descriptors, and
// one that took what they all were woken by rings for the others. The mutex is not held while they
// sleep.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include <poll.h>
#include <sys/socket.h>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "rdmacm/process.h"
#include "rsocket/pieces.h"
#include "rsocket/settings.h"

namespace verbena::rsocket {

using Clock = std::chrono::steady_clock;

// So long a socket that ends waits until what was sent has arrived, if its program has not said how
// long (SO_LINGER).
inline constexpr auto kPatience = std::chrono::seconds(10);

// The descriptors that a thread sleeps on, for one socket; -1 where there is none.
inline constexpr size_t kSleepFds = 3;
using SleepSet = std::array<pollfd, kSleepFds>;

class Socket {
 public:
  Socket(int domain, int type) : domain_(domain), type_(type) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // ---- counted by those who use it: the last one deletes it
  void hold() { users_.fetch_add(1, std::memory_order_relaxed); }
  void drop() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  [[nodiscard]] int domain() const { return domain_; }
  [[nodiscard]] int type() const { return type_; }
  // The number by which the program knows it.
  [[nodiscard]] virtual int number() const = 0;

  // ---- the calls: a number that is not negative, or a negative error number
  [[nodiscard]] virtual int bind(const sockaddr* address, socklen_t length) = 0;
  [[nodiscard]] virtual int listen(int backlog) = 0;
  // The new socket is in `made`, held once.
  [[nodiscard]] virtual int accept(Socket*& made) = 0;
  [[nodiscard]] virtual int connect(const sockaddr* address, socklen_t length) = 0;
  [[nodiscard]] virtual int shutdown(int how) = 0;
  [[nodiscard]] virtual ssize_t receive(Pieces& into, int flags, sockaddr* from,
                                        socklen_t* from_length) = 0;
  [[nodiscard]] virtual ssize_t send(Pieces& from, int flags, const sockaddr* to,
                                     socklen_t to_length) = 0;
  [[nodiscard]] virtual int own_name(sockaddr* address, socklen_t* length) = 0;
  [[nodiscard]] virtual int peer_name(sockaddr* address, socklen_t* length) = 0;
  [[nodiscard]] virtual int set_option(int level, int name, const void* value,
                                       socklen_t length) = 0;
  [[nodiscard]] virtual int get_option(int level, int name, void* value, socklen_t* length) = 0;
  [[nodiscard]] virtual int64_t map(void* buffer, size_t length, int protection, int64_t offset);
  [[nodiscard]] virtual int unmap(void* buffer, size_t length);
  [[nodiscard]] virtual ssize_t write_mapped(Pieces& from, int64_t offset, int flags);
  // Ends it. Those who wait in it leave.
  virtual void close() = 0;
  // The process exits: what was sent shall arrive, if that is soon. Nothing that another thread is
  // busy with is waited for.
  virtual void leave(Clock::time_point deadline) = 0;

  [[nodiscard]] int flags() const { return flags_; }
  void set_flags(int flags) { flags_ = flags; }

  // ---- for rpoll()
  [[nodiscard]] short ready(short events) {
    const MutexLock lock(mutex_);
    progress();
    return state_of(events);
  }
  // Arms what it sleeps on; ready() is to be asked once more before.
  void begin_sleep(SleepSet& set);
  void end_sleep(const SleepSet& set);

 protected:
  virtual ~Socket() = default;

  virtual void progress() VERBENA_REQUIRES(mutex_) = 0;
  [[nodiscard]] virtual short state_of(short events) const VERBENA_REQUIRES(mutex_) = 0;
  // The next completion makes a descriptor of the set readable.
  virtual void arm() VERBENA_REQUIRES(mutex_) = 0;
  [[nodiscard]] virtual SleepSet sleep_set() const VERBENA_REQUIRES(mutex_) = 0;
  // Takes what made them readable.
  virtual void woken(const SleepSet& set) VERBENA_REQUIRES(mutex_) = 0;

  // Something changed, or is to be armed again: all who sleep look.
  void ring() VERBENA_REQUIRES(mutex_);

  [[nodiscard]] bool is_nonblocking(int flags) const;
  // Until `done()`, which is called with the mutex held: 0, -EAGAIN if it may not wait so long,
  // -EINTR, -EBADF if it was closed.
  template <typename Done>
  [[nodiscard]] int wait(bool nonblocking, std::optional<Clock::time_point> until, Done done)
      VERBENA_REQUIRES(mutex_) {
    Clock::time_point spin_until{};
    for (;;) {
      progress();
      if (done()) return 0;
      if (closed_) return -EBADF;
      if (nonblocking) return -EAGAIN;
      const auto now = Clock::now();
      if (spin_until == Clock::time_point{}) spin_until = now + settings().polling_time;
      if (now < spin_until) continue;
      if (until && now >= *until) return -EAGAIN;
      arm();
      progress();
      if (done()) return 0;
      if (const int error = sleep(until); error != 0) return error;
    }
  }
  // From the options that say how long a call may take.
  [[nodiscard]] static std::optional<Clock::time_point> deadline_of(std::chrono::microseconds most);

  Mutex mutex_;
  bool closed_ VERBENA_GUARDED_BY(mutex_) = false;
  std::chrono::microseconds receive_timeout_ VERBENA_GUARDED_BY(mutex_){0};  // 0: none
  std::chrono::microseconds send_timeout_ VERBENA_GUARDED_BY(mutex_){0};

 private:
  [[nodiscard]] int sleep(std::optional<Clock::time_point> until) VERBENA_REQUIRES(mutex_);
  void enter() VERBENA_REQUIRES(mutex_);
  void leave() VERBENA_REQUIRES(mutex_);

  const int domain_;
  const int type_;
  std::atomic<int> flags_{0};
  std::atomic<uint32_t> users_{1};
  UniqueFd bell_ VERBENA_GUARDED_BY(mutex_);  // made when somebody first sleeps
  // The last one to leave takes what was rung.
  uint32_t sleepers_ VERBENA_GUARDED_BY(mutex_) = 0;
  bool rung_ VERBENA_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::rsocket
