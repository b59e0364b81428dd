// SPDX-License-Identifier: Apache-2.0
// One process of the storm: a connection manager, and a program on it that connects, listens,
// answers, changes its mind and disconnects. It keeps its own book of what it was told, and
// complains when the manager's events do not fit into it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/random.h"
#include "cm/manager.h"
#include "cm_storm/network.h"

namespace verbena::cm_storm {

enum class Phase : uint8_t { kConnecting, kLive, kOver, kGone };

// One end of a connection, as its program sees it.
struct End {
  Phase phase = Phase::kConnecting;
  bool active = false;
  wire::Gid peer{};
  Qpn our_qpn{};
  wire::Psn our_psn{};
  Qpn peer_qpn{};
  wire::Psn peer_psn{};
  bool unanswered = false;  // what it answered was never confirmed
};

struct Habits {
  Duration think = 0;            // at most, before an answer
  uint32_t reject_ppm = 0;       // of requests, and of replies
  uint32_t change_mind_ppm = 0;  // of connects: let go of in the middle
  uint32_t stay_ppm = 0;         // connections that are not ended by their program
  uint32_t destroy_ppm = 0;      // ends without a disconnect
  Duration life = 0;             // at most, of the others
  uint32_t backlog = 1024;
};

class Process;

// What the processes have in common.
class World {
 public:
  virtual ~World() = default;
  virtual void transmit(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad) = 0;
  virtual void complain(const std::string& what) = 0;
  virtual void note(const Process& process, const std::string& what) = 0;
  // This end may send; its first data may overtake its RTU.
  virtual void became_live(const End& end) = 0;
  // A queue pair number that nobody on this host has; an owner that is gone may have had it.
  virtual Qpn new_qpn(Process& owner) = 0;

  Time now = 0;
  Agenda agenda;
};

inline constexpr uint64_t kConnections = cm::service_id(cm::PortSpace::kTcp, 7174);
inline constexpr uint64_t kDatagrams = cm::service_id(cm::PortSpace::kUdp, 7174);

class Process final : public cm::MadSink, public cm::EventSink {
 public:
  Process(World& world, const wire::Gid& address, const cm::Config& config, const Habits& habits,
          uint64_t seed);

  void listen();
  void connect(const wire::Gid& server);
  void ask_for_datagrams(const wire::Gid& server);
  void kill() { dead_ = true; }
  void deliver(const wire::Gid& from, cm::MadBytes mad);
  void lose(cm::CommId id);
  void data_arrived(Qpn our_qpn);
  void release_all();

  [[nodiscard]] bool dead() const { return dead_; }
  [[nodiscard]] uint8_t slot() const { return slot_; }
  [[nodiscard]] const wire::Gid& address() const { return address_; }
  [[nodiscard]] cm::Manager& manager() { return manager_; }
  [[nodiscard]] const cm::Manager& manager() const { return manager_; }
  [[nodiscard]] const std::map<uint32_t, End>& ends() const { return ends_; }
  [[nodiscard]] const End* find_end(Qpn our_qpn) const;
  [[nodiscard]] size_t questions() const { return questions_.size(); }

  void send_mad(const wire::Gid& source, const wire::Gid& destination, cm::MadBytes mad) override;
  void on_event(const cm::Event& event) override;

 private:
  // After some thought, unless the process is dead by then.
  void later(Duration at_most, std::function<void()> what);
  [[nodiscard]] bool chance(uint32_t ppm) { return random_.chance_ppm(ppm); }
  void answer_request(cm::CommId id);
  void answer_reply(cm::CommId id);
  void answer_question(cm::CommId id);
  void on_live(cm::CommId id);
  void end(cm::CommId id);
  void change_mind(cm::CommId id);
  void on_terminal(const cm::Event& event);

  World& world_;
  wire::Gid address_;
  Habits habits_;
  uint8_t slot_;
  SeededRandom random_;
  cm::Manager manager_;
  bool dead_ = false;
  std::map<uint32_t, End> ends_;
  std::map<uint32_t, bool> questions_;  // of ours that wait for their answer
};

}  // namespace verbena::cm_storm
