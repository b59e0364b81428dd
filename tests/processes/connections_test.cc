// SPDX-License-Identifier: Apache-2.0
// The connection manager among processes that share an address: requests reach the one that listens
// and answers the one that asked, whoever else is there, stopped or killed; a port is one
// process's; and who dies is missed.
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "cm/service.h"
#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

constexpr uint16_t kPort = 7471;
constexpr uint64_t kService = cm::service_id(cm::PortSpace::kTcp, kPort);
constexpr uint32_t kConnections = 200;

struct Told {
  cm::EventKind kind{};
  cm::CommId id;
  cm::RejectReason reason{};
  Qpn qpn;
};

// A process's connections: its events are kept until they are asked for.
class Desk final : public cm::EventSink {
 public:
  explicit Desk(Party& party) : service_(party.context().device().engine().connections()) {
    service_.set_sink(this);
  }
  ~Desk() override { service_.set_sink(nullptr); }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  [[nodiscard]] cm::Service& service() { return service_; }
  void on_event(const cm::Event& event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back({event.kind, event.id, event.reason, event.qp.qpn});
    changed_.notify_one();
  }
  [[nodiscard]] Told next() {
    std::unique_lock lock(mutex_);
    need(changed_.wait_for(lock, std::chrono::nanoseconds(kPatience),
                           [this] { return !events_.empty(); }),
         "no event");
    const Told told = events_.front();
    events_.pop_front();
    return told;
  }
  void expect(cm::EventKind kind) {
    const Told told = next();
    need(told.kind == kind, std::string("not ") + to_string(kind) + " but " + to_string(told.kind));
  }
  [[nodiscard]] bool any_within(Duration patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(patience),
                             [this] { return !events_.empty(); });
  }
  [[nodiscard]] Result<cm::CommId, cm::Error> ask(Qpn qpn, uint64_t service_id = kService,
                                                  const wire::Gid& from = kLoopback,
                                                  const wire::Gid& to = kLoopback) {
    cm::ConnectParams params;
    params.source = from;
    params.destination = to;
    params.service_id = service_id;
    params.addresses = cm::AddressHeader{1, from, to};
    params.qp.qpn = qpn;
    return service_.connect(params);
  }
  void listen() {
    need(service_.claim({.service_id = kService, .address = {}}) == 0, "the port is taken");
    need(service_.listen({.service_id = kService, .address = {}}).has_value(), "no listener");
  }
  // Accepts so many, each with the number that it came with.
  void serve(uint32_t count) {
    for (uint32_t established = 0; established < count;) {
      const Told told = next();
      if (told.kind == cm::EventKind::kEstablished) ++established;
      if (told.kind != cm::EventKind::kConnectRequest) continue;
      cm::AcceptParams params;
      params.qp.qpn = told.qpn;
      need(service_.accept(told.id, params).has_value(), "not accepted");
    }
  }
  // Connects so many, one after the other.
  void call(uint32_t count, uint32_t first) {
    for (uint32_t i = 0; i < count; ++i) {
      const auto id = ask(Qpn(first + i));
      need(id.has_value(), "no connection");
      const Told told = next();
      need(told.kind == cm::EventKind::kConnectResponse && told.id == *id,
           std::string("answered with ") + to_string(told.kind));
      need(told.qpn == Qpn(first + i), "somebody else's answer");
      need(service_.establish(*id, {}).has_value(), "not established");
    }
  }

 private:
  cm::Service& service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Told> events_;
};

class Connecting : public ::testing::Test {
 protected:
  Connecting() : stage_(make_stage()) { options_.engine = own_engine_options(); }
  ~Connecting() override { drop_stage(stage_); }

  // Is there, and does nothing, until the test says so.
  std::function<void(Stage&)> bystander() {
    return [this](Stage& stage) {
      Party party(options_);
      ++stage.steps[3];
      need(wait_until([&] { return stage.numbers[7] != 0; }), "was forgotten");
    };
  }
  std::function<void(Stage&)> server(uint32_t connections) {
    return [this, connections](Stage& stage) {
      Party party(options_);
      Desk desk(party);
      desk.listen();
      stage.steps[0] = 1;
      desk.serve(connections);
      stage.steps[0] = 2;
      need(wait_until([&] { return stage.numbers[6] != 0; }), "was forgotten");
    };
  }
  void end_of(Actor& actor) { EXPECT_EQ(actor.join(), 0) << stage_->words.data(); }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(Connecting, RequestsReachWhoListensAndAnswersWhoAsked) {
  Actor first(*stage_, bystander());
  Actor second(*stage_, bystander());
  Actor listening(*stage_, server(2 * kConnections));
  ASSERT_TRUE(wait_until([&] { return stage_->steps[3] == 2 && stage_->steps[0] == 1; }));
  const auto client = [&](uint32_t first_number) {
    return [this, first_number](Stage&) {
      Party party(options_);
      Desk desk(party);
      desk.call(kConnections, first_number);
    };
  };
  Actor one(*stage_, client(0x1000));
  Actor other(*stage_, client(0x2000));
  end_of(one);
  end_of(other);
  ASSERT_TRUE(wait_until([&] { return stage_->steps[0] == 2; }));
  stage_->numbers[6] = stage_->numbers[7] = 1;
  for (Actor* const actor : {&listening, &first, &second}) end_of(*actor);
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

TEST_F(Connecting, AStoppedProcessKeepsNothingFromTheOthers) {
  Actor stopped(*stage_, bystander());
  ASSERT_TRUE(wait_until([&] { return stage_->steps[3] == 1; }));
  Actor listening(*stage_, server(20));
  ASSERT_TRUE(wait_until([&] { return stage_->steps[0] == 1; }));
  stopped.signal(SIGSTOP);
  Actor client(*stage_, [this](Stage&) {
    Party party(options_);
    Desk desk(party);
    desk.call(20, 0x1000);
  });
  end_of(client);
  stage_->numbers[6] = stage_->numbers[7] = 1;
  end_of(listening);
  stopped.signal(SIGCONT);
  end_of(stopped);
}

TEST_F(Connecting, NobodyThereIsSaidAtOnceAndAPortIsOneProcesss) {
  Actor listening(*stage_, server(0));
  ASSERT_TRUE(wait_until([&] { return stage_->steps[0] == 2; }));
  Actor client(*stage_, [this](Stage& stage) {
    Party party(options_);
    Desk desk(party);
    need(desk.ask(Qpn(7), kService + 1).has_value(), "no connection");
    const Told told = desk.next();
    need(
        told.kind == cm::EventKind::kRejected && told.reason == cm::RejectReason::kInvalidServiceId,
        "not refused");
    const cm::PortClaim same{.service_id = kService, .address = {}};
    need(desk.service().claim(same) == EADDRINUSE, "two have one port");
    need(desk.service().claim({.service_id = kService, .address = kLoopback}) == EADDRINUSE,
         "two have one port on one address");
    stage.numbers[0] = 1;
    need(wait_until([&] { return desk.service().claim(same) == 0; }), "not free after the death");
  });
  ASSERT_TRUE(wait_until([&] { return stage_->numbers[0] == 1; }));
  listening.signal(SIGKILL);
  (void)listening.join();
  end_of(client);
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

// One end of an idle connection is killed, or exits without a word, on this host or another.
class Vanishing : public Connecting {
 protected:
  struct Place {
    const Namespace* host = nullptr;
    wire::Gid address = kLoopback;
    void enter() const { need(host == nullptr || host->enter(), "setns"); }
  };
  void run(bool killed, const Place& here, const Place& there) {
    options_.engine.watch = {
        .tick = 50 * kMillisecond, .idle = 200 * kMillisecond, .patience = 3 * kSecond};
    Actor vanishing(*stage_, [&](Stage& stage) {
      there.enter();
      options_.address = there.address;
      Party party(options_);
      Desk desk(party);
      desk.listen();
      stage.cards[0] = party.card();
      stage.steps[0] = 1;
      need(wait_until([&] { return stage.steps[1] >= 1; }), "no client");
      party.connect(stage.cards[1], here.address);
      desk.serve(1);
      stage.steps[0] = 2;
      need(wait_until([&] { return stage.numbers[6] != 0; }), "was forgotten");
      std::exit(0);  // NOLINT: destructors of objects are not run
    });
    Actor left(*stage_, [&](Stage& stage) {
      here.enter();
      options_.address = here.address;
      Party party(options_);
      Desk desk(party);
      stage.cards[1] = party.card();
      stage.steps[1] = 1;
      need(wait_until([&] { return stage.steps[0] >= 1; }), "no server");
      party.connect(stage.cards[0], there.address);
      const auto id = desk.ask(Qpn(stage.cards[1].qpns[0]), kService, here.address, there.address);
      desk.expect(cm::EventKind::kConnectResponse);
      need(desk.service().establish(*id, {}).has_value(), "not established");
      desk.service().watch(*id, Qpn(stage.cards[1].qpns[0]));
      // While the other is there it stays. When it is missed, with the time given:
      // device/peer_watch_test.cc.
      need(!desk.any_within(300 * kMillisecond), "lost without reason");
      stage.steps[1] = 2;
      const Told told = desk.next();
      need(told.kind == cm::EventKind::kDisconnected ||
               told.kind == cm::EventKind::kDisconnectRequested,
           std::string("told ") + to_string(told.kind));
    });
    ASSERT_TRUE(wait_until([&] { return stage_->steps[0] == 2 && stage_->steps[1] == 2; }))
        << stage_->words.data();
    if (killed) vanishing.signal(SIGKILL);
    stage_->numbers[6] = 1;
    (void)vanishing.join();
    end_of(left);
  }
  void run_apart(bool killed) {
    if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
    const Namespace first(Namespace::Kind::kNetwork);
    const Namespace second(Namespace::Kind::kNetwork);
    if (!first.valid() || !second.valid() || !join_hosts(first, second)) {
      GTEST_SKIP() << "network namespaces are not to be had here";
    }
    run(killed, {&first, wire::Gid::from_ipv4(10, 77, 0, 1)},
        {&second, wire::Gid::from_ipv4(10, 77, 0, 2)});
  }
};

TEST_F(Vanishing, Killed) { run(true, {}, {}); }
TEST_F(Vanishing, Exited) { run(false, {}, {}); }
TEST_F(Vanishing, KilledElsewhere) { run_apart(true); }
TEST_F(Vanishing, ExitedElsewhere) { run_apart(false); }

// Killed in the midst of the exchange: the other end hears of it, or ends what it began, in bounded
// time.
class KilledWhile : public Connecting {
 protected:
  using Part = std::function<void(Desk&, Stage&)>;
  // The first ends itself where its part ends.
  void run(const Part& killed, const Part& left) {
    Actor first(*stage_, [&](Stage& stage) {
      Party party(options_);
      Desk desk(party);
      killed(desk, stage);
      ++stage.steps[0];
      (void)::raise(SIGKILL);
    });
    Actor second(*stage_, [&](Stage& stage) {
      Party party(options_);
      Desk desk(party);
      left(desk, stage);
    });
    EXPECT_EQ(first.join(), 128 + SIGKILL) << stage_->words.data();
    end_of(second);
    EXPECT_EQ(leftovers(options_.engine.host), "");
  }
  static void listens(Desk& desk, Stage& stage) {
    desk.listen();
    stage.steps[3] = 1;
  }
  static cm::CommId asks(Desk& desk, Stage& stage) {
    need(wait_until([&] { return stage.steps[3] != 0; }), "nobody listens");
    return desk.ask(Qpn(77)).value();
  }
  static cm::CommId is_asked(Desk& desk) {
    const Told told = desk.next();
    need(told.kind == cm::EventKind::kConnectRequest, "not asked");
    return told.id;
  }
  static void accepts(Desk& desk, cm::CommId id) {
    cm::AcceptParams params;
    params.qp.qpn = Qpn(78);
    need(desk.service().accept(id, params).has_value(), "not accepted");
  }
  static void ends(Desk& desk) {
    const Told told = desk.next();
    need(told.kind == cm::EventKind::kRejected || told.kind == cm::EventKind::kUnreachable ||
             told.kind == cm::EventKind::kDisconnected,
         std::string("told ") + to_string(told.kind));
  }
};

TEST_F(KilledWhile, TheServerThinks) {
  run(
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        (void)is_asked(desk);
      },
      [](Desk& desk, Stage& stage) {
        (void)asks(desk, stage);
        ends(desk);
      });
}

TEST_F(KilledWhile, TheClientWaits) {
  run([](Desk& desk, Stage& stage) { (void)asks(desk, stage); },
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        const cm::CommId id = is_asked(desk);
        need(wait_until([&] { return stage.steps[0] != 0; }), "the client is not done");
        cm::AcceptParams params;
        params.qp.qpn = Qpn(78);
        (void)desk.service().accept(id, params);  // unless the end was seen already
        ends(desk);
      });
}

TEST_F(KilledWhile, TheClientWaitsForAServerThatDoesNothing) {
  run(
      [](Desk& desk, Stage& stage) {
        (void)asks(desk, stage);
        need(wait_until([&] { return stage.steps[1] != 0; }), "the server was not asked");
      },
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        (void)is_asked(desk);
        stage.steps[1] = 1;
        ends(desk);
      });
}

TEST_F(KilledWhile, TheClientHasTheAnswer) {
  run(
      [](Desk& desk, Stage& stage) {
        (void)asks(desk, stage);
        desk.expect(cm::EventKind::kConnectResponse);
      },
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        accepts(desk, is_asked(desk));
        ends(desk);
      });
}

TEST_F(KilledWhile, TheServerHasAnswered) {
  run(
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        accepts(desk, is_asked(desk));
        need(wait_until([&] { return stage.steps[1] != 0; }), "the client has no answer");
      },
      [](Desk& desk, Stage& stage) {
        (void)asks(desk, stage);
        desk.expect(cm::EventKind::kConnectResponse);
        stage.steps[1] = 1;
        ends(desk);
      });
}

TEST_F(KilledWhile, OneEndDisconnects) {
  run(
      [](Desk& desk, Stage& stage) {
        const cm::CommId id = asks(desk, stage);
        desk.expect(cm::EventKind::kConnectResponse);
        need(desk.service().establish(id, {}).has_value(), "not established");
        need(wait_until([&] { return stage.steps[1] != 0; }), "the server is not there");
        need(desk.service().disconnect(id, {}).has_value(), "not disconnected");
      },
      [](Desk& desk, Stage& stage) {
        listens(desk, stage);
        accepts(desk, is_asked(desk));
        desk.expect(cm::EventKind::kEstablished);
        stage.steps[1] = 1;
        const Told told = desk.next();
        need(told.kind == cm::EventKind::kDisconnectRequested,
             std::string("told ") + to_string(told.kind));
      });
}

}  // namespace
}  // namespace verbena::processes
