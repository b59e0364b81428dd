// SPDX-License-Identifier: Apache-2.0
// What a fabric has found out in calls that may not call the handler, for poll() to tell when
// everything else is done. Owned by the fabric's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "fabric/fabric.h"

namespace verbena::fabric {

struct Notice {
  // A connection has failed, or ended; an operation is not done.
  enum class What : uint8_t { kFailed, kEnded, kNotDone } what;
  ConnectionId connection = 0;
  OperationId operation = 0;
  std::string why{};
};

class Notices {
 public:
  // False: there is no descriptor; errno says why.
  [[nodiscard]] bool open() {
    fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return fd_.valid();
  }
  // Readable while a poll() has something to tell.
  [[nodiscard]] int fd() const { return fd_.get(); }

  void add(Notice notice) {
    all_.push_back(std::move(notice));
    if (!polling_) wake();
  }

  // At the beginning of a poll(): what is added now is told at its end.
  void begin_poll() {
    polling_ = true;
    uint64_t ignored = 0;
    if (!all_.empty()) static_cast<void>(!::read(fd_.get(), &ignored, sizeof ignored));
  }
  // Tells of each; how many there were. failed(connection, why) and ended(connection) do what it
  // takes to tell of these. Notices that are caused meanwhile are told, too, but a handler that
  // answers each by causing another does not keep poll() for ever.
  template <typename Failed, typename Ended>
  size_t deliver(Handler& handler, Failed failed, Ended ended) {
    constexpr int kAtOnce = 1024;
    const size_t count = all_.size();
    for (int i = 0; i < kAtOnce && !all_.empty(); ++i) {
      const Notice notice = std::move(all_.front());
      all_.pop_front();
      switch (notice.what) {
        case Notice::What::kFailed: failed(notice.connection, notice.why); break;
        case Notice::What::kNotDone:
          handler.on_done(notice.connection, notice.operation, false);
          break;
        case Notice::What::kEnded: ended(notice.connection); break;
      }
    }
    return count;
  }
  void end_poll() {
    polling_ = false;
    if (!all_.empty()) wake();
  }

 private:
  void wake() const {
    const uint64_t one = 1;
    // The counter cannot overflow: poll() resets it.
    static_cast<void>(!::write(fd_.get(), &one, sizeof one));
  }

  UniqueFd fd_;  // an eventfd
  std::deque<Notice> all_;
  bool polling_ = false;
};

}  // namespace verbena::fabric
