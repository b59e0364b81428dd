// SPDX-License-Identifier: Apache-2.0
// A server's process: carries out the actions of its sessions, and executes requests: data above
// the inline limit moves by RDMA, in pieces, before a write takes effect and before a read is
// answered.
#pragma once

#include <map>

#include "session_sim/world.h"

namespace verbena::session_sim {

// What outlives the server: the last write to each object.
using Objects = std::map<ObjectId, Bytes>;

class SimServer {
 public:
  SimServer(World& world, uint64_t run);
  [[nodiscard]] session::Server& machine() { return server_; }
  [[nodiscard]] uint64_t run() const { return run_; }
  [[nodiscard]] size_t ranges() const { return ranges_.size(); }
  void on_message(uint64_t queue_pair, Bytes message);
  void pump();
  void die() { *alive_ = false; }
  void check_no_faults();

 private:
  struct Job {
    uint64_t number = 0;
    session::SessionId session = 0;
    uint64_t queue_pair = 0;
    Bytes message;  // views in the request point here
    protocol::Request request;
    bool transferring = false;
    uint32_t pieces_left = 0;
    bool failed = false;
    Bytes data;  // that moves by RDMA
  };

  void carry_out(session::SendFrame& a);
  void carry_out(session::CloseConnection& a);
  void carry_out(session::SendMessage& a);
  void carry_out(session::CloseQueuePair& a);
  void carry_out(session::SessionBegun& a);
  void carry_out(session::DoEndStep& a);
  void carry_out(session::SessionEnded& a);

  void begin(Job& job);
  void transfer(Job& job, const protocol::IoRequest& io);
  void piece_done(uint64_t number, bool ok);
  void execute(uint64_t number);
  [[nodiscard]] protocol::Response result_of(Job& job);
  [[nodiscard]] protocol::Response io_result(Job& job, const protocol::IoRequest& io);
  void abandon_transfers(session::SessionId session);
  void arm();
  void later(Duration span, std::function<void()> what);

  World& world_;
  uint64_t run_;
  session::Server server_;
  std::map<uint64_t, Job> jobs_;
  uint64_t next_job_ = 1;
  std::map<uint64_t, session::SessionId> ranges_;
  uint64_t next_range_ = 1;
  std::set<session::SessionId> released_;  // sessions without ranges: nothing of them may happen
  Objects objects_;
  Time armed_ = kNever;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace verbena::session_sim
