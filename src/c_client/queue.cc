// SPDX-License-Identifier: Apache-2.0
#include "c_client/queue.h"

#include <chrono>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/c_interface.h"

namespace verbena::c_client {

verbena_completion completion_of(Finished& finished) {
  verbena_completion made = verbena_completion_init();
  made.context = finished.context;
  made.operation = finished.operation;
  made.status = finished.status;
  made.bytes = finished.bytes;
  made.object = id_of(finished.object);
  made.range = finished.range;
  made.crc = finished.crc;
  made.list = finished.list.release();
  made.data = finished.data.release();
  const size_t length = std::min(finished.error.size(), sizeof made.error - 1);
  std::memcpy(made.error, finished.error.data(), length);
  return made;
}

// --- the queue

bool Queue::open() {
  readable_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return readable_.valid();
}

bool Queue::reserve() {
  const MutexLock lock(mutex_);
  if (reserved_ == capacity_) return false;
  ++reserved_;
  return true;
}

void Queue::give_back() {
  const MutexLock lock(mutex_);
  --reserved_;
}

void Queue::push(std::list<Finished>&& one) {
  const MutexLock lock(mutex_);
  const uint64_t count = 1;
  if (finished_.empty()) static_cast<void>(!write(readable_.get(), &count, sizeof count));
  finished_.splice(finished_.end(), one);
  changed_.notify_one();
}

std::list<Finished> Queue::take(int timeout_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::list<Finished> one;
  const MutexLock lock(mutex_);
  while (finished_.empty() && timeout_ms != 0) {
    if (timeout_ms < 0) {
      changed_.wait(mutex_);
    } else if (!changed_.wait_until(mutex_, until)) {
      break;
    }
  }
  if (finished_.empty()) return one;
  one.splice(one.begin(), finished_, finished_.begin());
  --reserved_;
  uint64_t count = 0;
  if (finished_.empty()) static_cast<void>(!read(readable_.get(), &count, sizeof count));
  return one;
}

// --- a request

Pending::Pending(const verbena_request& request, std::shared_ptr<Queue> queue)
    : callback_(request.callback), queue_(std::move(queue)), one_(1) {
  finished().context = request.context;
  finished().operation = request.operation;
}

Pending::~Pending() {
  if (queue_ != nullptr) queue_->give_back();
}

void Pending::finish(const client::Error& error) {
  finished().status = status_of(error);
  finished().error = error.what;
  finish();
}

void Pending::finish() {
  if (queue_ != nullptr) return std::exchange(queue_, nullptr)->push(std::move(one_));
  const verbena_completion completion = completion_of(finished());
  const InCallback here;
  callback_(&completion);
}

}  // namespace verbena::c_client

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_queue_create(uint32_t capacity, verbena_queue** queue) {
  return guarded([&] {
    if (queue == nullptr) return failed(VERBENA_INVALID, "there is no place for the queue");
    *queue = nullptr;
    if (capacity == 0) return failed(VERBENA_INVALID, "the capacity of the queue is 0");
    auto made = std::make_unique<verbena_queue>(std::make_shared<Queue>(capacity));
    if (!made->queue->open()) return failed(VERBENA_NO_DEVICE, "there are no descriptors left");
    *queue = made.release();
    return int{VERBENA_OK};
  });
}

VERBENA_EXPORT void verbena_queue_destroy(verbena_queue* queue) { delete queue; }

VERBENA_EXPORT int verbena_queue_wait(verbena_queue* queue, verbena_completion* completion,
                                      int timeout_ms) {
  return guarded([&] {
    if (queue == nullptr || completion == nullptr) {
      return failed(VERBENA_INVALID, "the queue or the completion is NULL");
    }
    const int status =
        first_of(check_room(completion), timeout_ms == 0 ? VERBENA_OK : check_may_wait());
    if (status != VERBENA_OK) return status;
    auto one = queue->queue->take(timeout_ms);
    if (one.empty()) return failed(VERBENA_AGAIN, "there is no completion");
    give(completion, completion_of(one.front()));
    return int{VERBENA_OK};
  });
}

VERBENA_EXPORT int verbena_queue_poll(verbena_queue* queue, verbena_completion* completion) {
  return verbena_queue_wait(queue, completion, 0);
}

VERBENA_EXPORT int verbena_queue_fd(verbena_queue* queue) {
  return queue == nullptr ? -1 : queue->queue->fd();
}
