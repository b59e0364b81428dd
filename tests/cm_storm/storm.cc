// SPDX-License-Identifier: Apache-2.0
#include "cm_storm/storm.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "cm/route.h"
#include "cm_storm/process.h"

namespace verbena::cm_storm {
namespace {

constexpr Time kStormLength = 5 * kSecond;
// The slowest that may happen, one after the other: a connect that is given more time (103 + 75 s),
// a reply that is (69 + 73 s), a life (30 s), a disconnect (16 s), stragglers and timewait.
constexpr Time kBound = 400 * kSecond;
constexpr wire::Gid kStranger = wire::Gid::from_ipv4(10, 9, 9, 9);

class Storm final : public World {
 public:
  Storm(uint64_t seed, bool trace)
      : trace_(trace),
        random_(seed),
        network_(draw_faults(), agenda, random_,
                 [this](const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad) {
                   deliver(from, to, mad);
                 }) {
    make_processes();
  }

  Outcome run() {
    plan_connects();
    plan_kills();
    plan_probes();
    run_until_quiet();
    check_agreement();
    for (const auto& process : processes_) {
      if (!process->dead()) process->release_all();
    }
    run_until_quiet();
    check_nothing_left();
    for (const auto& process : processes_) {
      for (size_t i = 0; i < cm::kCounters; ++i) {
        const auto counter = static_cast<cm::Counter>(i);
        outcome_.counters.add(counter, process->manager().counters()[counter]);
      }
    }
    return std::move(outcome_);
  }

  // ---- World
  void transmit(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad) override {
    ++outcome_.messages;
    network_.send(from, to, mad, now);
    if (random_.chance_ppm(meddle_ppm_)) meddle(to, mad);
  }
  void complain(const std::string& what) override {
    outcome_.complaints.push_back("at " + std::to_string(now / kMicrosecond) + " us: " + what);
  }
  void note(const Process& process, const std::string& what) override {
    last_activity_ = now;
    if (!trace_) return;
    std::printf("%12.6f %s slot %u: %s\n", static_cast<double>(now) / 1e9,
                to_string(process.address()).c_str(), process.slot(), what.c_str());
  }
  void became_live(const End& end) override {
    ++outcome_.connected;
    Process* const peer = owner(end.peer, end.peer_qpn);
    if (!end.active || peer == nullptr || !random_.chance_ppm(early_data_ppm_)) return;
    agenda.at(now + kMicrosecond, [peer, qpn = end.peer_qpn] {
      if (!peer->dead()) peer->data_arrived(qpn);
    });
  }
  Qpn new_qpn(Process& process) override {
    for (;;) {
      const Qpn qpn(0x10 + ++last_qpn_[process.address()]);
      Process*& holder = owners_[{process.address(), qpn.value}];
      if (holder != nullptr && !holder->dead()) continue;
      holder = &process;
      return qpn;
    }
  }

 private:
  Duration up_to(Duration most) {
    return static_cast<Duration>(random_.below(static_cast<uint64_t>(most) + 1));
  }
  uint32_t ppm_up_to(uint32_t most) { return static_cast<uint32_t>(random_.below(most + 1)); }
  bool half() { return random_.below(2) == 0; }

  Faults draw_faults() {
    Faults f{.delay = 10 * kMicrosecond + up_to(half() ? kMillisecond : 50 * kMillisecond)};
    if (half()) f.loss_ppm = ppm_up_to(250'000);
    if (half()) f.duplicate_ppm = ppm_up_to(300'000);
    if (half()) f.jitter = up_to(half() ? 100 * kMillisecond : kSecond);
    if (half()) {
      f.straggler_ppm = 20'000;
      f.straggle = 15 * kSecond;
    }
    return f;
  }

  Habits draw_habits() {
    Habits h{.stay_ppm = ppm_up_to(800'000), .life = up_to(30 * kSecond)};
    if (half()) h.think = up_to(half() ? 100 * kMillisecond : 10 * kSecond);
    if (half()) h.reject_ppm = ppm_up_to(300'000);
    if (half()) h.change_mind_ppm = ppm_up_to(200'000);
    if (half()) h.destroy_ppm = ppm_up_to(500'000);
    if (random_.below(4) == 0) h.backlog = 4;
    return h;
  }

  void make_processes() {
    early_data_ppm_ = half() ? 500'000 : 0;
    meddle_ppm_ = half() ? 50'000 : 0;
    config_.max_half_open = half() ? 4096 : 16;
    if (random_.below(8) == 0) config_.max_half_open_each = 4;
    config_.listener_grace = half() ? 0 : 2 * kSecond;
    if (random_.below(8) == 0) config_.max_connections = 16;
    const auto hosts = static_cast<uint8_t>(2 + random_.below(3));
    for (uint8_t host = 1; host <= hosts; ++host) {
      hosts_.push_back(wire::Gid::from_ipv4(10, 0, 0, host));
      const uint64_t count = 1 + random_.below(3);
      for (uint64_t i = 0; i < count; ++i) start(hosts_.back(), i == 0);
    }
  }

  void start(const wire::Gid& host, bool listens) {
    config_.slot = static_cast<uint8_t>(1 + random_.below(254));
    while (find(host, config_.slot) != nullptr) ++config_.slot;
    processes_.push_back(
        std::make_unique<Process>(*this, host, config_, draw_habits(), random_.next()));
    if (!listens) return;
    processes_.back()->listen();
    listener_[host] = processes_.back().get();
  }

  void plan_connects() {
    const uint64_t count = 30 + random_.below(half() ? 50 : 300);
    outcome_.connects = count;
    for (uint64_t i = 0; i < count; ++i) {
      Process* const client = processes_[random_.below(processes_.size())].get();
      const wire::Gid server = hosts_[random_.below(hosts_.size())];
      const bool datagrams = random_.below(8) == 0;
      agenda.at(up_to(kStormLength), [client, server, datagrams] {
        if (client->dead()) return;
        datagrams ? client->ask_for_datagrams(server) : client->connect(server);
      });
    }
  }

  // The device notices by itself that a peer is not there any more.
  void plan_probes() {
    for (int i = 1; i < 80; ++i) agenda.at(i * 5 * kSecond, [this] { probe(); });
  }

  void plan_kills() {
    if (!half()) return;
    Process* const victim = processes_[random_.below(processes_.size())].get();
    const Time when = up_to(20 * kSecond);
    agenda.at(when, [victim] { victim->kill(); });
    if (!half()) return;
    agenda.at(when + up_to(10 * kSecond), [this, victim] {
      const bool listened = listener_[victim->address()] == victim;
      // A host whose numbers begin anew: some are those of connections that others think they have.
      if (half()) last_qpn_[victim->address()] = 0;
      start(victim->address(), listened);
      for (int i = 0; i < 20; ++i) {
        processes_.back()->connect(hosts_[random_.below(hosts_.size())]);
      }
    });
  }

  void probe() {
    for (const auto& process : processes_) {
      if (process->dead()) continue;
      const auto ends = process->ends();
      for (const auto& [id, end] : ends) {
        if (end.phase == Phase::kLive && is_orphan(end)) process->lose(cm::CommId(id));
      }
    }
  }
  // Its peer's process is dead, or a new one has the number.
  [[nodiscard]] bool is_orphan(const End& end) const {
    const Process* const peer = owner(end.peer, end.peer_qpn);
    if (peer == nullptr || peer->dead()) return true;
    const End* const other = peer->find_end(end.peer_qpn);
    return other == nullptr || other->peer_psn != end.our_psn;
  }

  // ---- the network
  [[nodiscard]] Process* find(const wire::Gid& host, uint8_t slot) const {
    for (const auto& process : processes_) {
      if (process->address() == host && process->slot() == slot) return process.get();
    }
    return nullptr;
  }
  [[nodiscard]] Process* owner(const wire::Gid& host, Qpn qpn) const {
    const auto found = owners_.find({host, qpn.value});
    return found == owners_.end() ? nullptr : found->second;
  }

  // As the link of a host does it.
  void deliver(const wire::Gid& from, const wire::Gid& to, cm::MadBytes mad) {
    const cm::Route route = cm::route(mad);
    if (trace_) {
      std::printf("%12.6f %s > %s attribute 0x%02x\n", static_cast<double>(now) / 1e9,
                  to_string(from).c_str(), to_string(to).c_str(), mad[17]);
    }
    for (const auto& process : processes_) {
      if (process->address() != to) continue;
      const bool is_for =
          route.kind == cm::Route::Kind::kEveryone ||
          (route.kind == cm::Route::Kind::kSlot && route.slot == process->slot()) ||
          // The kernel's hash chooses somebody.
          (route.kind == cm::Route::Kind::kNobody && process == processes_.front()) ||
          (route.kind == cm::Route::Kind::kService && listener_[to] == process.get());
      if (is_for) process->deliver(from, mad);
    }
  }

  // A stranger sees a message and sends something like it from its own address.
  void meddle(const wire::Gid& to, cm::MadBytes mad) {
    cm::MadBuffer forged;
    std::ranges::copy(mad, forged.begin());
    const uint64_t changes = random_.below(4);
    for (uint64_t i = 0; i < changes; ++i) {
      forged[random_.below(60)] = static_cast<uint8_t>(random_.next());
    }
    if (auto decoded = cm::decode(forged); decoded && half()) {
      if (auto* const req = std::get_if<cm::Req>(&decoded->message)) {
        req->path.local = kStranger;
        cm::encode(*decoded, forged);
      }
    }
    if (const auto seen = cm::decode(mad)) {
      if (const auto* const rtu = std::get_if<cm::Rtu>(&seen->message)) {
        // It knows both ids of a connection, and would like to end it.
        cm::encode({}, cm::Rej{.local_id = rtu->local_id, .remote_id = rtu->remote_id}, forged);
      }
    }
    agenda.at(now + up_to(kSecond), [this, to, forged] { deliver(kStranger, to, forged); });
  }

  // ---- time
  void run_until_quiet() {
    for (;;) {
      Time next = agenda.next();
      for (const auto& process : processes_) {
        if (!process->dead()) next = std::min(next, process->manager().next_timer());
      }
      if (next == kNever) return;
      now = std::max(now, next);
      if (agenda.next() <= now) agenda.do_next();
      // By index: a process may be started meanwhile.
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (!processes_[i]->dead()) processes_[i]->manager().on_timer(now);
      }
    }
  }

  // ---- what must hold
  void check_agreement() {
    if (last_activity_ > kBound) {
      complain("the last event was at " + std::to_string(last_activity_ / kSecond) + " s");
    }
    for (const auto& process : processes_) {
      if (process->dead()) continue;
      if (process->questions() != 0) complain("a question without an end");
      for (const auto& [id, end] : process->ends()) {
        if (end.phase == Phase::kConnecting) complain("neither connected nor failed");
        if (end.phase == Phase::kOver) complain("timewait without an end");
        if (end.phase == Phase::kLive) check_pair(id, end);
      }
    }
  }

  void check_pair(uint32_t id, const End& end) {
    ++outcome_.lasting;
    const Process* const peer = owner(end.peer, end.peer_qpn);
    const End* const other =
        peer == nullptr || peer->dead() ? nullptr : peer->find_end(end.peer_qpn);
    const char* const side = end.active ? " (asked)" : " (accepted)";
    // Three answers were lost, or what this end said to them: the other does not send more to an
    // address that it has never heard of, and gives up in the end, or sooner for others.
    if (end.active && other != nullptr && other->unanswered) {
      const cm::Counters& counters = peer->manager().counters();
      if (counters[cm::Counter::kKeptSilent] + counters[cm::Counter::kEvicted] != 0) return;
    }
    if (other == nullptr || other->phase != Phase::kLive) {
      complain("connected to nobody: " + std::to_string(id) + side);
    } else if (other->peer_qpn != end.our_qpn || other->peer_psn != end.our_psn ||
               other->our_psn != end.peer_psn || other->active == end.active) {
      complain("the ends disagree: " + std::to_string(id) + side);
    }
  }

  void check_nothing_left() {
    for (const auto& process : processes_) {
      if (process->dead()) continue;
      if (process->manager().size() != 0 || process->manager().half_open() != 0) {
        complain(std::to_string(process->manager().size()) + " entries are left");
      }
    }
  }

  bool trace_;
  SeededRandom random_;
  Network network_;
  cm::Config config_;
  uint32_t early_data_ppm_ = 0;
  uint32_t meddle_ppm_ = 0;
  std::vector<wire::Gid> hosts_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<wire::Gid, Process*> listener_;
  std::map<wire::Gid, uint32_t> last_qpn_;
  std::map<std::pair<wire::Gid, uint32_t>, Process*> owners_;
  Time last_activity_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome run_storm(uint64_t seed, bool trace) { return Storm(seed, trace).run(); }

}  // namespace verbena::cm_storm
