// SPDX-License-Identifier: Apache-2.0
// A process with a client: carries out its actions, and makes operations until it is told to stop.
#pragma once

#include <map>

#include "session_sim/world.h"

namespace verbena::session_sim {

class SimClient {
 public:
  SimClient(World& world, size_t index, uint64_t generation);
  void start();
  void close();
  // All of its operations that are not over end with it.
  void die();

  [[nodiscard]] session::Client& machine() { return client_; }
  [[nodiscard]] uint64_t generation() const { return generation_; }
  [[nodiscard]] bool closed() const { return closed_; }
  // After each call of machine().
  void pump();

 private:
  void carry_out(session::ConnectSide& a);
  void carry_out(session::SendSide& a);
  void carry_out(session::CloseSide& a);
  void carry_out(session::ConnectFabric& a);
  void carry_out(session::EndFabric& a);
  void carry_out(session::Fence& a);
  void carry_out(session::Completed& a);
  void carry_out(session::SessionReady& a);
  void carry_out(session::SessionLost& a);
  void carry_out(session::ClientRefused& a);
  void carry_out(session::ClientClosed& a);

  void work();
  void make_operation();
  void make_io(Operation& operation, bool write, Time deadline);
  void check_data(const Operation& operation, uint64_t length);
  void arm();
  // Does it later, if this process still lives.
  void later(Duration span, std::function<void()> what);

  World& world_;
  size_t index_;
  uint64_t generation_;
  session::Client client_;
  std::map<session::RequestId, uint64_t> tokens_;
  Time armed_ = kNever;
  bool closed_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// What is written with a token: its bytes all depend on it.
[[nodiscard]] Bytes pattern_of(uint64_t token, size_t length);

}  // namespace verbena::session_sim
