// SPDX-License-Identifier: Apache-2.0
// One simulated process with the link's own Membership: a thread that joins, receives, sends with
// credits, answers others and leaves, and one that takes and gives back ports meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "link/membership.h"
#include "link/udp_receiver.h"
#include "members_sim/kernel.h"
#include "members_sim/letters.h"

namespace verbena::members_sim {

// Where a member finds the others.
class Neighbourhood {
 public:
  virtual ~Neighbourhood() = default;
  struct Place {
    uint32_t process = 0;
    uint8_t slot = 0;
  };
  // One that has joined, or is gone and was not noticed yet.
  [[nodiscard]] virtual std::optional<Place> anybody() = 0;
  // It is neither dead nor about to leave.
  [[nodiscard]] virtual bool stays(uint32_t process) = 0;
  // Nobody was killed, so nothing can be lost.
  [[nodiscard]] virtual bool is_whole() = 0;
  // Nobody is stopped. The number changes when somebody is stopped or killed.
  [[nodiscard]] virtual std::optional<uint64_t> calm() = 0;
  // It took one so long to join, while nobody was stopped or killed.
  virtual void joined(uint32_t process, Duration took) = 0;
  virtual void violation(const std::string& what) = 0;
  // A port that may be had by one alone.
  virtual void port_taken(uint32_t process, uint64_t port) = 0;
  virtual void port_given_back(uint32_t process, uint64_t port) = 0;
};

struct MemberParts {
  Scheduler& scheduler;
  Kernel& kernel;
  Letters& letters;
  Neighbourhood& others;
  std::string group;
};

class Member final : private link::DatagramHandler {
 public:
  Member(const MemberParts& parts, uint32_t process);
  ~Member() override;

  // --- its threads
  void run();
  void use_ports();

  [[nodiscard]] uint32_t process() const { return process_; }
  [[nodiscard]] bool has_joined() const { return membership_ != nullptr; }
  [[nodiscard]] uint8_t slot() const { return slot_; }
  [[nodiscard]] link::Membership& membership() { return *membership_; }
  // All that it wanted to send is on its way.
  [[nodiscard]] bool is_done() const { return rounds_ == 0 && left_ == 0 && ports_done_; }
  // Leaves as soon as it can.
  void ask_to_leave();
  // Looks at everything once, as any later activity brings it.
  void nudge();
  [[nodiscard]] bool is_leaving() const { return leaving_; }
  [[nodiscard]] bool has_left() const { return left_group_; }
  [[nodiscard]] uint64_t refusals() const { return refusals_; }
  [[nodiscard]] std::string describe();

  // It was killed: the end of an object whose threads stand still.
  void bury();

 private:
  void on_datagram(const link::Datagram& datagram) override;
  void on_consumed(const link::Datagram& datagram, uint32_t cost) override;
  void step();
  void receive();
  void send();
  void begin_round();
  [[nodiscard]] uint64_t draw(uint64_t bound) { return parts_.scheduler.random().below(bound); }
  [[nodiscard]] std::string name() const { return "process " + std::to_string(process_) + ": "; }

  MemberParts parts_;
  const uint32_t process_;
  SeededRandom random_;
  UniqueFd nudge_;
  link::UdpReceiver receiver_;
  std::unique_ptr<link::Membership> membership_;
  uint8_t slot_ = 0;
  uint32_t rounds_;
  uint64_t left_ = 0;  // of this round, to be sent
  Neighbourhood::Place to_;
  Time next_ = 0;  // when it does something by itself
  bool polling_ = false;
  Time refused_since_ = 0;  // 0: it is not
  bool ports_done_ = false;
  bool leaving_ = false;
  bool left_group_ = false;
  uint64_t refusals_ = 0;
};

}  // namespace verbena::members_sim
