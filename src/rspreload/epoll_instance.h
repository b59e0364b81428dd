// SPDX-License-Identifier: Apache-2.0
// One epoll instance: its rsockets, and the threads that wait in it. Such a thread has asked for
// what was wanted when it began. When that changes it is woken by a bell, an eventfd among the
// kernel's descriptors of the instance, and looks again. Under the mutex of all instances.
#pragma once

#include <cstdint>
#include <vector>

#include <sys/epoll.h>

#include "rspreload/table.h"

namespace verbena::rspreload {

struct Watched {
  int fd;
  const Entry* entry;  // to be compared only: the descriptor may be another's by now
  epoll_event asked;
  bool disarmed = false;  // EPOLLONESHOT
  uint32_t told = 0;      // EPOLLET
  uint32_t uses = 0;      // when it was told
};

class Instance {
 public:
  explicit Instance(int fd) : fd_(fd) {}
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  std::vector<Watched> watched;

  // A thread begins to wait. leave() wants what this returns.
  [[nodiscard]] uint32_t enter() {
    ++waiters_;
    return changes_;
  }
  void leave(uint32_t entered);
  // What is wanted has changed. May change errno.
  void ring();
  // Whether an event of the kernel's is the bell's, which is not for the program.
  [[nodiscard]] static bool is_bell(const epoll_event& event);

 private:
  [[nodiscard]] bool make_bell();

  const int fd_;
  int bell_ = -1;  // made when it is first rung
  bool rung_ = false;
  uint32_t waiters_ = 0;
  uint32_t outdated_ =
      0;  // of them: began before the last change; the last to leave stops the bell
  uint32_t changes_ = 0;
};

}  // namespace verbena::rspreload
