// SPDX-License-Identifier: Apache-2.0
#include "medium/file_writer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <liburing.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"

namespace verbena::medium {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // of one write: enough for a disk, and many fit at once

bool again(int error) { return error == EINTR || error == EAGAIN; }

class PlainWriter final : public FileWriter {
 public:
  [[nodiscard]] const char* name() const override { return "pwrite"; }
  [[nodiscard]] int write(std::span<const FileWrite> writes) override {
    for (FileWrite write : writes) {
      while (write.bytes > 0) {
        const ssize_t wrote = ::pwrite(write.fd, write.memory, std::min(write.bytes, kPiece),
                                       static_cast<off_t>(write.offset));
        if (wrote < 0 && again(errno)) continue;
        if (wrote < 0) return errno;
        if (wrote == 0) return EIO;
        write.offset += static_cast<uint64_t>(wrote);
        write.memory += wrote;
        write.bytes -= static_cast<size_t>(wrote);
      }
    }
    return 0;
  }
};

class UringWriter final : public FileWriter {
 public:
  static constexpr unsigned kDepth = 32;

  // Whether the system allows it.
  [[nodiscard]] bool start() {
    started_ = ::io_uring_queue_init(kDepth, &ring_, 0) == 0;
    return started_;
  }
  UringWriter() {
    for (unsigned slot = 0; slot < kDepth; ++slot) free_.push_back(slot);
  }
  ~UringWriter() override {
    if (started_) ::io_uring_queue_exit(&ring_);
  }

  [[nodiscard]] const char* name() const override { return "io_uring"; }
  [[nodiscard]] int write(std::span<const FileWrite> writes) override {
    if (broken_) return plain_.write(writes);
    error_ = 0;
    auto next = writes.begin();
    size_t done = 0;  // of *next
    while (true) {
      while (error_ == 0 && next != writes.end() && !free_.empty()) {
        const size_t bytes = std::min(next->bytes - done, kPiece);
        if (bytes > 0) {
          const unsigned slot = free_.back();
          free_.pop_back();
          flying_.at(slot) = {next->fd, next->offset + done, next->memory + done, bytes};
          prepare(slot);
          done += bytes;
        }
        if (done == next->bytes) {
          ++next;
          done = 0;
        }
      }
      if (free_.size() == kDepth) return error_;
      // After an error, too: memory must not be given back while the kernel reads from it.
      if (wait_for_one()) continue;
      // The system refuses io_uring from now on (a sandbox was entered, for instance). What was on
      // its way is written again: the same bytes to the same place.
      broken_ = true;
      while (submitted_ > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        take_completions();
      }
      return plain_.write(writes);
    }
  }

 private:
  void prepare(unsigned slot) {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    VERBENA_CHECK(entry != nullptr);  // as many as there are slots
    const FileWrite& write = flying_.at(slot);
    ::io_uring_prep_write(entry, write.fd, write.memory, static_cast<unsigned>(write.bytes),
                          write.offset);
    ::io_uring_sqe_set_data64(entry, slot);
  }

  // False if the call fails as it would ever after.
  [[nodiscard]] bool wait_for_one() {
    const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
    if (submitted > 0) submitted_ += static_cast<unsigned>(submitted);
    // EBUSY, EAGAIN: the kernel has no room until completions are taken; what was prepared stays.
    if (submitted < 0 && !again(-submitted) && submitted != -EBUSY) return false;
    take_completions();
    return true;
  }

  void take_completions() {
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring_, &completion) == 0) {
      const auto slot = static_cast<unsigned>(::io_uring_cqe_get_data64(completion));
      const int result = completion->res;
      ::io_uring_cqe_seen(&ring_, completion);
      --submitted_;
      finish(slot, result);
    }
  }

  void finish(unsigned slot, int result) {
    FileWrite& write = flying_.at(slot);
    if (result > 0) {
      const auto wrote = static_cast<size_t>(result);
      write.offset += wrote;
      write.memory += wrote;
      write.bytes -= wrote;
    } else if (!again(-result) && error_ == 0) {
      error_ = result == 0 ? EIO : -result;
    }
    if (write.bytes > 0 && error_ == 0 && !broken_) {
      prepare(slot);
    } else {
      free_.push_back(slot);
    }
  }

  io_uring ring_{};
  bool started_ = false;
  int error_ = 0;
  unsigned submitted_ = 0;  // of which the completion has not been taken
  bool broken_ = false;     // the ring is of no use any more
  PlainWriter plain_;
  std::array<FileWrite, kDepth> flying_{};
  std::vector<unsigned> free_;
};

}  // namespace

std::unique_ptr<FileWriter> make_plain_writer() { return std::make_unique<PlainWriter>(); }

std::unique_ptr<FileWriter> make_uring_writer() {
  auto writer = std::make_unique<UringWriter>();
  if (!writer->start()) return nullptr;
  return writer;
}

}  // namespace verbena::medium
