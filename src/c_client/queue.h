// SPDX-License-Identifier: Apache-2.0
// Requests that are under way for a program, and where their completions go: to a callback, or to a
// queue that the program polls. A queue outlives its handle until the last of its requests is
// complete.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "c_client/arguments.h"
#include "client/whole.h"

namespace verbena::c_client {

// What a completion has, and the program has not yet got.
struct Finished {
  void* context = nullptr;
  int32_t operation = 0;
  int status = VERBENA_OK;
  std::string error{};
  uint64_t bytes = 0;
  ObjectId object{};
  uint64_t range = 0;
  uint32_t crc = 0;
  std::unique_ptr<verbena_list> list{};
  std::unique_ptr<uint8_t[], client::FreeMemory> data{};
};
// `list` and `data` are the program's now.
[[nodiscard]] verbena_completion completion_of(Finished& finished);

class Queue {
 public:
  explicit Queue(uint32_t capacity) : capacity_(capacity) {}
  [[nodiscard]] bool open();

  // A place for one completion; false: there is none.
  [[nodiscard]] bool reserve();
  void give_back();
  // One element, whose place was reserved. Allocates nothing: it comes from the thread that drives
  // the connection.
  void push(std::list<Finished>&& one);
  // One element, or none if there is none until then. Its place is free again.
  [[nodiscard]] std::list<Finished> take(int timeout_ms);
  [[nodiscard]] int fd() const { return readable_.get(); }

 private:
  const uint32_t capacity_;
  UniqueFd readable_;  // an eventfd that counts 1 while there is something
  Mutex mutex_;
  Condition changed_;
  uint32_t reserved_ VERBENA_GUARDED_BY(mutex_) = 0;  // places in use, those of finished_ too
  std::list<Finished> finished_ VERBENA_GUARDED_BY(mutex_);
};

// One request that is under way. finish() is called once.
class Pending {
 public:
  Pending(const verbena_request& request, std::shared_ptr<Queue> queue);
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  // One that was not begun leaves its place in the queue.
  ~Pending();

  [[nodiscard]] Finished& finished() { return one_.front(); }
  void finish(const client::Error& error);
  void finish();

 private:
  void (*const callback_)(const verbena_completion* completion);
  std::shared_ptr<Queue> queue_;
  std::list<Finished> one_;
};

}  // namespace verbena::c_client

// NOLINTBEGIN(readability-identifier-naming): a name as C has it.
struct verbena_queue {
  std::shared_ptr<verbena::c_client::Queue> queue;
};
// NOLINTEND(readability-identifier-naming)
