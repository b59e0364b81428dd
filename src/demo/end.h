// SPDX-License-Identifier: Apache-2.0
// One end of the live run: the process's device with memory, completion queues, and an RC, a UC and
// a UD queue pair that face those of the other end. What is refused or does not come throws
// Problem.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "demo/line.h"
#include "demo/operations.h"
#include "device/device.h"

namespace verbena::demo {

// The memory is slots of one message each, with room around it that must stay as it was.
inline constexpr uint32_t kGuardBytes = 64;
inline constexpr uint32_t kGrhBytes = 40;  // what a datagram's receive has before the message
inline constexpr uint32_t kSlotBytes = 2 * kMaxMessageBytes;
inline constexpr uint32_t kQueueEntries = 256;

struct EndOptions {
  bool ipv6 = false;
  device::EngineOptions engine;
};

class End {
 public:
  End(const EndOptions& options, Line& line);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // Connects with the other end, which does the same.
  void join();

  [[nodiscard]] Line& line() { return line_; }
  [[nodiscard]] device::Device& device() { return context_.device(); }
  [[nodiscard]] std::span<uint8_t> slot(uint32_t index) {
    return std::span(memory_).subspan(size_t{index} * kSlotBytes, kSlotBytes);
  }
  // The address of a slot's message, here and at the other end.
  [[nodiscard]] uint64_t here(uint32_t slot) { return address(memory_.data(), slot); }
  [[nodiscard]] uint64_t there(uint32_t slot) const {
    return other_.memory + uint64_t{slot} * kSlotBytes + kGuardBytes;
  }

  [[nodiscard]] memory::Sge piece(uint32_t slot, uint32_t bytes);
  // A request to the other end's slot; `list` must live until it is posted.
  [[nodiscard]] transport::SendRequest request(const Operation& operation, uint32_t remote_slot,
                                               std::span<const memory::Sge> list) const;
  void post(transport::QpType service, std::span<const transport::SendRequest> requests);
  void post_receive(transport::QpType service, uint32_t slot, uint32_t bytes, uint64_t id = 0);
  // Completions that are there, all of them good; makes progress.
  [[nodiscard]] std::span<const transport::Completion> poll_sent() { return poll(*send_cq_); }
  [[nodiscard]] std::span<const transport::Completion> poll_received() { return poll(*recv_cq_); }
  // Waits for the next `count`.
  void wait_sent(uint64_t count);
  [[nodiscard]] std::vector<transport::Completion> wait_received(uint64_t count);

  // Windows over our memory, for the other end to invalidate; and away with them.
  [[nodiscard]] std::vector<RKey> bind_windows(uint32_t count);
  void free_windows(std::span<const RKey> windows);

  // What the device's own thread did to our memory is ours to see from here on.
  void settle() { const device::Engine::Quiet quiet(device().engine()); }

 private:
  struct Names {
    uint64_t memory = 0;
    uint32_t rkey = 0;
    std::array<uint32_t, 3> qpns{};
    std::array<uint32_t, 3> psns{};
  };
  static constexpr uint32_t kSlots = kMostMessages;
  static constexpr uint32_t kQkey = 0x1ee7;

  [[nodiscard]] static size_t index_of(transport::QpType service);
  [[nodiscard]] static uint64_t address(const uint8_t* memory, uint32_t slot) {
    return reinterpret_cast<uint64_t>(memory) + uint64_t{slot} * kSlotBytes + kGuardBytes;
  }
  void create();
  void find_path(bool ipv6);
  void connect(transport::QpType service);
  void start_datagrams();
  [[nodiscard]] std::span<const transport::Completion> poll(device::CompletionQueue& cq);

  Line& line_;
  device::Context context_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<device::Pd> pd_;
  std::unique_ptr<device::CompletionQueue> send_cq_;
  std::unique_ptr<device::CompletionQueue> recv_cq_;
  std::unique_ptr<device::Mr> mr_;
  std::array<std::unique_ptr<device::Qp>, 3> qps_;
  transport::Path path_;
  Names own_;
  Names other_;
  std::array<transport::Completion, 32> completions_;
};

// Looks for something again and again, lets others run meanwhile, and gives up after kPatience.
class Watch {
 public:
  Watch(const Line& line, const char* what) : line_(line), what_(what) {}
  // It was not there this time.
  void again();
  // It was: patience starts anew.
  void seen() { rounds_ = 0; }

 private:
  const Line& line_;
  const char* what_;
  uint64_t rounds_ = 0;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace verbena::demo
