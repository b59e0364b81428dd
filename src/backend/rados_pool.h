// SPDX-License-Identifier: Apache-2.0
// A connection to a pool, and its operations with errors in words. For any number of threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/rados_library.h"
#include "backend/rados_tier.h"

namespace verbena::backend {

class RadosPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RadosPool>> connect(const RadosOptions& options);
  RadosPool(const RadosPool&) = delete;
  RadosPool& operator=(const RadosPool&) = delete;
  ~RadosPool();

  [[nodiscard]] const RadosLibrary& api() const { return api_; }
  [[nodiscard]] rados_ioctx_t io() const { return io_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // `error` is negative, as librados returns it.
  [[nodiscard]] Error failed(std::string_view what, std::string_view object, int error) const;

  // A value of an omap; empty: there is none.
  [[nodiscard]] Result<std::string> omap_value(const std::string& object, const std::string& key);
  // All values of an omap; false to stop.
  using EachValue = std::function<Result<bool>(std::string_view key, std::string_view value)>;
  [[nodiscard]] Result<bool> each_value(const std::string& object, const EachValue& each);
  // An attribute, or empty.
  [[nodiscard]] Result<std::string> attribute(const std::string& object, const char* name);
  // Names of all objects.
  using EachName = std::function<void(std::string_view name)>;
  [[nodiscard]] Result<void> each_object(const EachName& each);

 private:
  RadosPool(const RadosLibrary& api, const RadosOptions& options);
  [[nodiscard]] Result<void> start(const RadosOptions& options);

  const RadosLibrary& api_;
  std::string name_;
  rados_t cluster_ = nullptr;
  rados_ioctx_t io_ = nullptr;
};

// One operation that is written or read as a whole.
class WriteOperation {
 public:
  explicit WriteOperation(const RadosPool& pool) : pool_(pool), op_(pool.api().create_write_op()) {}
  ~WriteOperation() { pool_.api().release_write_op(op_); }
  WriteOperation(const WriteOperation&) = delete;
  WriteOperation& operator=(const WriteOperation&) = delete;
  [[nodiscard]] rados_write_op_t get() const { return op_; }
  void create() { pool_.api().write_op_create(op_, LIBRADOS_CREATE_IDEMPOTENT, nullptr); }
  void compare(const char* attribute, int how, std::string_view with) {
    pool_.api().write_op_cmpxattr(op_, attribute, static_cast<uint8_t>(how), with.data(),
                                  with.size());
  }
  void set(const char* attribute, std::string_view to) {
    pool_.api().write_op_setxattr(op_, attribute, to.data(), to.size());
  }
  // 0 or the negative errno.
  [[nodiscard]] int run(const std::string& object) {
    return pool_.api().write_op_operate(op_, pool_.io(), object.c_str(), nullptr, 0);
  }

 private:
  const RadosPool& pool_;
  rados_write_op_t op_;
};

// Operations under way. For one thread at a time.
class RadosFlight {
 public:
  RadosFlight(const RadosPool& pool, size_t most) : pool_(pool), most_(most) {}
  ~RadosFlight();  // waits for all of them
  RadosFlight(const RadosFlight&) = delete;
  RadosFlight& operator=(const RadosFlight&) = delete;

  // Called when it is done, with the operation's result, on the thread that waits.
  using Done = std::function<void(int result)>;
  // Waits for the oldest one if there are too many. `begin` is given the completion.
  void start(const std::function<int(rados_completion_t)>& begin, Done done);
  void wait_all();

 private:
  struct Flying {
    rados_completion_t completion;
    Done done;
  };
  void wait_one();
  const RadosPool& pool_;
  const size_t most_;
  std::vector<Flying> flying_;  // the oldest first
};

}  // namespace verbena::backend
