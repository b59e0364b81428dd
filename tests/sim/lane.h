// SPDX-License-Identifier: Apache-2.0
// One direction of an RC connection: work posted at one end, and a model of what it must do. RC is
// exactly once and in order, and no two lanes share memory but for the shared words; so the model
// carries out each request at the moment it is posted, and everything seen later must agree with
// it.
//
// A READ may see a WRITE that was posted after it (IBA 10.8.3.3), so the lane fences such a WRITE
// or puts it elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sim/connection.h"
#include "sim/recv_pool.h"
#include "sim/shared_words.h"
#include "sim/world.h"

namespace verbena::sim {

struct LaneSpec {
  uint32_t mtu = 1024;
  uint32_t max_message = 16384;
  uint32_t depth = 16;
  uint32_t max_sge = 3;
  uint32_t max_inline = 64;
  bool signal_all = false;
  bool zero_based_target = false;
  bool use_windows = true;
};

class Lane {
 public:
  Lane(World& world, const End& from, const End& to, const LaneSpec& spec, SharedWords* shared);

  void set_reverse(Lane& lane) { reverse_ = &lane; }
  void set_ends(const End& from, const End& to);
  // Posts one random request; false when there was no room for one now.
  bool post_random();
  // A request after which nothing is unsignaled.
  bool post_last();

  // The lane's own requests, in order; true for a success.
  bool on_send_done(const transport::Completion& completion);
  // A message of this lane arrived at the far end.
  void on_receive_done(const transport::Completion& completion, RecvPool& pool);

  [[nodiscard]] size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] uint64_t posted() const { return posted_; }
  [[nodiscard]] uint64_t completed() const { return completed_; }
  [[nodiscard]] const End& from() const { return from_; }
  [[nodiscard]] const End& to() const { return to_; }
  // When all is complete the target must hold exactly what the model says.
  void check_settled();
  // The queue pair is in the error state: every request must have been reported, or was well
  // before.
  void all_flushed();
  // The connection ended with requests under way: nobody knows how far they came.
  void abandon();

 private:
  struct Op {
    uint64_t id = 0;
    transport::SendOp op{};
    bool signaled = false;
    std::vector<Range> local;          // at `from`
    Range remote;                      // at `to`
    std::vector<uint8_t> expected;     // READ: what it must bring
    std::optional<uint64_t> original;  // atomic: what it must find
    std::optional<uint64_t> message;   // consumes the receive of this message
    std::optional<SharedWords::Attempt> shared;
    bool through_window = false;
    bool invalidates = false;
  };
  struct Message {
    uint64_t number = 0;
    bool write = false;
    uint32_t length = 0;
    std::vector<uint8_t> payload;  // of a SEND
    bool has_imm = false;
    uint32_t imm = 0;
    std::optional<RKey> invalidated;
  };
  // A memory window over part of the target. Bound and unbound by requests of the reverse lane.
  struct Window {
    enum class State : uint8_t { kNone, kFree, kBinding, kBound, kUnbinding } state = State::kNone;
    memory::WindowType type{};
    RKey key;
    RKey key_before;
    Range range;
  };

  // posting (lane_post.cc)
  [[nodiscard]] uint32_t draw_length();
  [[nodiscard]] std::optional<Range> find_local(size_t bytes, const std::vector<Range>& taken);
  [[nodiscard]] bool take_local(Op& op, uint32_t length, bool source);
  [[nodiscard]] std::vector<uint8_t> bytes_of(const std::vector<Range>& pieces) const;
  [[nodiscard]] bool read_under_way(const Range& range) const;
  [[nodiscard]] bool post_send(transport::SendOp kind);
  [[nodiscard]] bool post_write(transport::SendOp kind);
  [[nodiscard]] bool post_read();
  [[nodiscard]] bool post_atomic(transport::SendOp kind);
  [[nodiscard]] bool post_shared_atomic();
  [[nodiscard]] bool tend_window();
  void address(transport::SendRequest& request, Op& op, const Range& range);
  [[nodiscard]] bool post(transport::SendRequest& request, Op op);
  void note_scenes(const transport::SendRequest& request, const Op& op, uint64_t length);
  void expect_message(Op& op, bool write, uint32_t length, std::vector<uint8_t> payload,
                      const transport::SendRequest& request);
  // completing (lane_done.cc)
  void finish(const Op& op);
  void window_changed(transport::SendOp op);

  World& world_;
  End from_;
  End to_;
  LaneSpec spec_;
  SharedWords* shared_;
  Lane* reverse_ = nullptr;
  Region local_;   // at `from`: sources of sends, sinks of reads
  Region target_;  // at `to`
  Range words_;    // atomics, at the target's start
  Range data_;
  std::deque<Op> outstanding_;
  std::vector<Op> doubtful_;  // failed: carried out, or not, or in part
  std::deque<Message> messages_;
  uint64_t next_message_ = 0;
  uint64_t delivered_ = 0;  // messages that arrived
  uint64_t next_id_ = 1;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  Window window_;
};

}  // namespace verbena::sim
