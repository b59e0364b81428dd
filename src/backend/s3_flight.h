// SPDX-License-Identifier: Apache-2.0
// Requests under way, each on a thread of its own: they last for milliseconds at least, and wait.
// For one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <system_error>
#include <utility>

namespace verbena::backend {

class S3Flight {
 public:
  explicit S3Flight(size_t most) : most_(most) {}
  ~S3Flight() { wait_all(); }
  S3Flight(const S3Flight&) = delete;
  S3Flight& operator=(const S3Flight&) = delete;

  // Called on the thread that waits, when the request is done.
  using Done = std::function<void()>;
  // `work` runs on another thread. Waits for the oldest one if there are too many.
  void start(std::function<Done()> work) {
    if (flying_.size() >= most_) wait_one();
    try {
      flying_.push_back(std::async(std::launch::async, work));
    } catch (const std::system_error&) {  // no more threads: it is done when it is waited for
      flying_.push_back(std::async(std::launch::deferred, std::move(work)));
    }
  }
  void wait_all() {
    while (!flying_.empty()) wait_one();
  }

 private:
  void wait_one() {
    const Done done = flying_.front().get();
    flying_.pop_front();
    done();
  }
  const size_t most_;
  std::deque<std::future<Done>> flying_;  // the oldest first
};

}  // namespace verbena::backend
