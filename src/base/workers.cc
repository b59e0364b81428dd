// SPDX-License-Identifier: Apache-2.0
#include "base/workers.h"

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena {

int Workers::start(size_t threads) {
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return errno;
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    if (threads_.empty()) return error.code().value();
  }
  return 0;
}

void Workers::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::run(Job work, Job done) {
  {
    const MutexLock lock(mutex_);
    waiting_.push_back({std::move(work), std::move(done)});
  }
  more_.notify_one();
}

void Workers::work() {
  for (;;) {
    Task task;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && waiting_.empty()) more_.wait(mutex_);
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task.work();
    {
      const MutexLock lock(mutex_);
      done_.push_back(std::move(task.done));
    }
    any_done_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    static_cast<void>(!write(wake_.get(), &one, sizeof one));
  }
}

size_t Workers::collect() {
  if (!any_done_.exchange(false, std::memory_order_acquire)) return 0;
  uint64_t count = 0;
  static_cast<void>(!read(wake_.get(), &count, sizeof count));
  {
    const MutexLock lock(mutex_);
    collected_.swap(done_);
  }
  const size_t many = collected_.size();
  for (Job& done : collected_) {
    if (done) done();
  }
  collected_.clear();
  return many;
}

}  // namespace verbena
