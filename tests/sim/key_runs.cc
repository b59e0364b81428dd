// SPDX-License-Identifier: Apache-2.0
// Two hosts, an RC and a UC connection, and a few slots of memory at each of them. In each slot
// runs one message after the other:
//
//   the far end's keys are configured (a request of its own, or a call) -> the near end posts the
//   configuration of its keys, the message and perhaps their invalidation, in one go -> both
//   memories are compared with the model -> a while later, when copies may have come, still no
//   error was told but the one there is -> the next
#include "sim/key_runs.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "base/check.h"
#include "link/framing.h"
#include "sim/key_side.h"
#include "sim/trace.h"

namespace verbena::sim {
namespace {

using transport::Completion;
using transport::QpAttr;
using transport::QpState;
using transport::QpType;
using transport::SendOp;
using transport::SendRequest;
using transport::WcStatus;

constexpr size_t kSlots = 3;
constexpr uint32_t kMessagesPerSlot = 8;
constexpr uint64_t kIova = 0;
constexpr Time kLimit = 60 * kSecond;
constexpr Duration kUcPatience = 3 * kMillisecond;
// What else a wr_id says beside the slot's number.
constexpr uint64_t kConfigured = 0x100;
constexpr uint64_t kMoved = 0x200;
constexpr uint64_t kInvalidated = 0x300;

[[nodiscard]] const char* name_of(SendOp op) {
  switch (op) {
    case SendOp::kSend:  return "SEND";
    case SendOp::kWrite: return "WRITE";
    case SendOp::kRead:  return "READ";
    default:             return "UC WRITE";
  }
}

class KeyRun {
 public:
  KeyRun(uint64_t seed, transport::Mtu mtu)
      : random_(seed),
        network_random_(seed * 8 + static_cast<uint64_t>(mtu)),
        mtu_(mtu),
        faults_(network_random_, {.loss_ppm = 20'000,
                                  .duplicate_ppm = 20'000,
                                  .reorder_ppm = 30'000,
                                  .delay_ppm = 2'000,
                                  .corrupt_ppm = 5'000,
                                  .long_delay = kMillisecond}),
        network_({.delay = 5 * kMicrosecond, .bits_per_second = 25'000'000'000}, faults_) {
    for (size_t host : {0u, 1u}) make_host(host);
    for (const QpType type : {QpType::kRc, QpType::kUc}) {
      for (size_t host : {0u, 1u}) connect(host, type);
    }
    for (size_t i = 0; i < kSlots; ++i) {
      const size_t from = 64 + i * (KeySide::kBytes + 64);
      slots_[i].side = {std::make_unique<KeySide>(memories_[0], from),
                        std::make_unique<KeySide>(memories_[1], from)};
      // Of its own, so that what is drawn does not depend on which slot is done first.
      slots_[i].random = std::make_unique<SeededRandom>(seed * kSlots + i);
    }
  }

  void run() {
    for (;;) {
      for (Slot& slot : slots_) tend(slot);
      if (std::ranges::all_of(slots_, &Slot::finished)) break;
      step();
      SIM_REQUIRE(now_ < kLimit, "the messages are not done after %lld s",
                  static_cast<long long>(kLimit / kSecond));
    }
    for (const KeyMemory& memory : memories_) {
      SIM_REQUIRE(memory.real == memory.wanted, "a byte changed and should not have");
    }
  }

  // Of all that RC brought; what of UC arrives is chance.
  [[nodiscard]] std::array<uint64_t, kSlots> digest() const {
    std::array<uint64_t, kSlots> all{};
    std::ranges::transform(slots_, all.begin(),
                           [](const Slot& slot) { return slot.digest.hash(); });
    return all;
  }
  [[nodiscard]] uint64_t told() const { return told_; }
  [[nodiscard]] uint64_t uc_delivered() const { return uc_delivered_; }
  [[nodiscard]] uint64_t resent() const {
    return nodes_[0]->endpoint().counters().at(
        static_cast<size_t>(transport::Counter::kRetransmittedPackets));
  }

 private:
  enum class State : uint8_t { kIdle, kPreparing, kMoving, kLingering };
  struct Slot {
    std::array<std::unique_ptr<KeySide>, 2> side;  // by host
    std::unique_ptr<SeededRandom> random;
    State state = State::kIdle;
    uint32_t messages = 0;
    SendOp op = SendOp::kSend;
    bool uc = false;
    bool arrived = false;  // of UC
    size_t source = 0;
    Time until = 0;
    Bytes wire;
    std::array<std::optional<uint64_t>, 2> wrong;  // what must be told at each host
    std::array<uint32_t, 2> told{};
    uint32_t configs_open = 0;
    Trace digest{false};

    [[nodiscard]] bool finished() const {
      return state == State::kIdle && messages == kMessagesPerSlot;
    }
  };

  // --- set-up
  void make_host(size_t host) {
    link::NodeOptions options{
        .address = wire::Gid::from_ipv4(10, 0, 0, static_cast<uint8_t>(host + 1)),
        .limits = {.max_qps = 4, .max_srqs = 4}};
    options.memory.strict_keys = random_.below(3) == 0;
    options.max_poll_delay = 5 * kMicrosecond;
    nodes_[host] = std::make_unique<link::SimulatedNode>(network_, network_random_, options);
    KeyMemory& memory = memories_[host];
    memory.node = nodes_[host].get();
    memory.pd = memory.node->memory().allocate_pd().value();
    memory.real.resize(64 + kSlots * (KeySide::kBytes + 64));
    for (uint8_t& byte : memory.real) byte = static_cast<uint8_t>(random_.next());
    memory.wanted = memory.real;
    memory.region =
        memory.node->memory()
            .register_region(memory.pd, {.base = memory.real.data(),
                                         .length = memory.real.size(),
                                         .iova = kIova,
                                         .access = memory::kLocalWrite | memory::kRemoteWrite |
                                                   memory::kRemoteRead})
            .value();
    for (const QpType type : {QpType::kRc, QpType::kUc}) {
      qpn(host, type) = memory.node->endpoint()
                            .create_qp({.type = type,
                                        .pd = memory.pd,
                                        .send_cq = memory.node->send_cq(),
                                        .recv_cq = memory.node->recv_cq(),
                                        .send = {.max_entries = 64, .max_sge = 1},
                                        .max_recv_entries = 64,
                                        .max_recv_sge = 1})
                            .value();
    }
  }
  [[nodiscard]] Qpn& qpn(size_t host, QpType type) { return qpns_[host][type == QpType::kUc]; }

  void connect(size_t host, QpType type) {
    using namespace transport;
    QpAttr attr;
    attr.access = memory::kRemoteWrite | memory::kRemoteRead;
    attr.mtu = mtu_;
    attr.dest_qpn = qpn(1 - host, type);
    attr.path.source = nodes_[host]->address();
    attr.path.destination = nodes_[1 - host]->address();
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
    attr.timeout = 12;
    attr.min_rnr_timer = 1;
    attr.retry_count = attr.rnr_retry = 7;
    const bool rc = type == QpType::kRc;
    const auto go = [&](QpState to, uint32_t mask) {
      attr.state = to;
      VERBENA_CHECK(nodes_[host]
                        ->endpoint()
                        .modify_qp(qpn(host, type), attr, kAttrState | mask, now_)
                        .has_value());
    };
    go(QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccess);
    go(QpState::kRtr, kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                          (rc ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0u));
    go(QpState::kRts,
       kAttrSqPsn | (rc ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic : 0u));
  }

  // --- the life of a message
  void tend(Slot& slot) {
    if (slot.state == State::kMoving && slot.uc && now_ >= slot.until) finish(slot);
    if (slot.state == State::kLingering && now_ >= slot.until) {
      check_told(slot);
      slot.state = State::kIdle;
      ++slot.messages;
    }
    if (slot.state == State::kIdle && slot.messages < kMessagesPerSlot) prepare(slot);
  }

  void prepare(Slot& slot) {
    SeededRandom& random = *slot.random;
    KeyMessage message;
    if (random.below(2) == 0) message.wire = draw_signature_domain(random);
    const uint64_t unit = message.wire.present() ? message.wire.block : 512;
    message.data_bytes = unit * (1 + random.below(unit > 520 ? 6 : 40));
    if (random.below(3) == 0) message.data_bytes += random.below(unit);
    constexpr std::array<SendOp, 4> kOps{SendOp::kSend, SendOp::kWrite, SendOp::kRead,
                                         SendOp::kWriteImm};
    slot.op = kOps[random.below(kOps.size())];
    slot.uc = slot.op == SendOp::kWriteImm;
    slot.arrived = false;
    slot.source = slot.op == SendOp::kRead ? 1 : 0;
    for (const auto& side : slot.side) side->draw(message, random);
    slot.side[slot.source]->fill(random, random.below(3) == 0);
    slot.wire = slot.side[slot.source]->to_wire();
    slot.wrong[slot.source] = slot.side[slot.source]->wrong_as_source();
    slot.wrong[1 - slot.source] = slot.side[1 - slot.source]->wrong_as_sink(slot.wire);
    slot.told = {};
    slot.state = State::kPreparing;
    configure_far_end(slot);
  }

  // By requests of its own, or by calls.
  void configure_far_end(Slot& slot) {
    slot.configs_open = 0;
    if (slot.random->below(2) == 0) {
      for (const auto& [key, config] : slot.side[1]->configs()) {
        VERBENA_CHECK(nodes_[1]->memory().configure_key(key, memories_[1].pd, config) ==
                      memory::Fault::kNone);
      }
      return start(slot);
    }
    slot.configs_open = post_configs(slot, 1, true);
    if (slot.configs_open == 0) start(slot);
  }
  uint32_t post_configs(Slot& slot, size_t host, bool signaled) {
    uint32_t posted = 0;
    for (const auto& [key, config] : slot.side[host]->configs()) {
      SendRequest request;
      request.op = SendOp::kConfigureKey;
      request.wr_id = kConfigured + index(slot);
      request.flags = signaled ? uint32_t{transport::kSignaled} : 0;
      request.key = key;
      request.config = &config;
      post(host, request, host == 0 && slot.uc);
      ++posted;
    }
    return posted;
  }

  void start(Slot& slot) {
    const memory::Sge there = slot.side[1]->sge();
    if (slot.op == SendOp::kSend) post_receive({&there, 1}, index(slot), false);
    if (slot.uc) post_receive({}, index(slot), true);
    (void)post_configs(slot, 0, false);
    const memory::Sge here = slot.side[0]->sge();
    SendRequest request;
    request.op = slot.op;
    request.wr_id = kMoved + index(slot);
    request.flags = transport::kSignaled;
    request.list = {&here, 1};
    request.remote_addr = RemoteAddr(there.addr);
    request.rkey = slot.side[1]->rkey();
    request.imm = static_cast<uint32_t>(index(slot) << 16 | slot.messages);
    // What an error says is gone with the configuration.
    const bool may_invalidate = !slot.wrong[0] && !slot.wrong[1];
    const bool key_there = !slot.side[1]->configs().empty();
    if (slot.op == SendOp::kSend && key_there && may_invalidate && slot.random->below(2) == 0) {
      request.op = SendOp::kSendInvalidate;
      request.invalidate = slot.side[1]->rkey();
    }
    slot.state = State::kMoving;
    slot.until = now_ + kUcPatience;
    post(0, request, slot.uc);
    if (!slot.side[0]->configs().empty() && may_invalidate && slot.random->below(2) == 0) {
      SendRequest invalidate;
      invalidate.op = SendOp::kLocalInvalidate;
      invalidate.wr_id = kInvalidated + index(slot);
      invalidate.invalidate = slot.side[0]->rkey();
      post(0, invalidate, slot.uc);
    }
  }
  void finish(Slot& slot) {
    KeySide& sink = *slot.side[1 - slot.source];
    const auto length = static_cast<unsigned long long>(slot.wire.size());
    if (!slot.uc || slot.arrived) {
      sink.expect(slot.wire);
      SIM_REQUIRE(sink.as_expected(), "slot %zu, message %u: %s of %llu bytes came out wrong",
                  index(slot), slot.messages, name_of(slot.op), length);
      if (!slot.uc) slot.digest.mix_bytes(sink.image());
      uc_delivered_ += slot.uc ? 1 : 0;
    } else {
      sink.accept();  // some of it may have come
    }
    slot.state = State::kLingering;
    slot.until = now_ + static_cast<Duration>(network_random_.below(2 * kMillisecond));
  }

  // --- what is told of signatures
  void look_for_errors() {
    for (Slot& slot : slots_) {
      if (slot.state == State::kIdle) continue;
      for (size_t host : {0u, 1u}) {
        const auto error = slot.side[host]->take_error();
        if (!error) continue;
        ++told_;
        ++slot.told[host];
        SIM_REQUIRE(slot.wrong[host].has_value(),
                    "slot %zu, message %u: host %zu found a wrong signature where there is none, "
                    "at %llu of %zu",
                    index(slot), slot.messages, host,
                    static_cast<unsigned long long>(error->offset), slot.wire.size());
        SIM_REQUIRE(error->offset == *slot.wrong[host],
                    "slot %zu, message %u: the wrong block is at %llu, host %zu said %llu",
                    index(slot), slot.messages, static_cast<unsigned long long>(*slot.wrong[host]),
                    host, static_cast<unsigned long long>(error->offset));
      }
    }
  }
  void check_told(const Slot& slot) const {
    for (size_t host : {0u, 1u}) {
      const bool lost = slot.uc && !slot.arrived && host == 1;
      if (lost) continue;
      const uint32_t wanted = slot.wrong[host] ? 1 : 0;
      SIM_REQUIRE(slot.told[host] == wanted,
                  "slot %zu, message %u: host %zu told of %u wrong signatures, and should of %u",
                  index(slot), slot.messages, host, slot.told[host], wanted);
    }
  }

  // --- the machine
  [[nodiscard]] size_t index(const Slot& slot) const {
    return static_cast<size_t>(&slot - slots_.data());
  }
  void post(size_t host, const SendRequest& request, bool uc) {
    const Qpn to = qpn(host, uc ? QpType::kUc : QpType::kRc);
    VERBENA_CHECK(nodes_[host]->endpoint().post_send(to, request, now_).has_value());
    look_for_errors();
  }
  void post_receive(std::span<const memory::Sge> list, uint64_t id, bool uc) {
    const Qpn to = qpn(1, uc ? QpType::kUc : QpType::kRc);
    VERBENA_CHECK(nodes_[1]->endpoint().post_recv(to, {id, list}).has_value());
  }

  void step() {
    Time next =
        std::min({network_.next_arrival(), nodes_[0]->next_event(), nodes_[1]->next_event()});
    for (const Slot& slot : slots_) {
      const bool waits =
          slot.state == State::kLingering || (slot.state == State::kMoving && slot.uc);
      if (waits) next = std::min(next, slot.until);
    }
    // What needed no packet is done already.
    if (nodes_[0]->has_notices() || nodes_[1]->has_notices()) next = now_;
    SIM_REQUIRE(next != kNever, "nothing will ever happen, and the messages are not done");
    now_ = std::max(now_, next);
    network_.deliver_due(now_);
    for (const auto& node : nodes_) {
      node->set_time(now_);
      if (node->next_event() <= now_) node->run(now_);
      look_for_errors();
    }
    for (size_t host : {0u, 1u}) {
      for (const link::Notice& notice : nodes_[host]->take_notices()) on_notice(host, notice);
    }
  }
  void on_notice(size_t host, const link::Notice& notice) {
    const Completion& completion = notice.completion;
    SIM_REQUIRE(notice.kind == link::Notice::Kind::kSendDone ||
                    notice.kind == link::Notice::Kind::kReceiveDone ||
                    notice.event == transport::Event::kCommunicationEstablished,
                "event %u at host %zu", static_cast<unsigned>(notice.event), host);
    if (notice.kind == link::Notice::Kind::kQpEvent) return;
    SIM_REQUIRE(completion.status == WcStatus::kSuccess, "request 0x%llx of host %zu failed: %s",
                static_cast<unsigned long long>(completion.wr_id), host,
                transport::to_string(completion.status));
    if (notice.kind == link::Notice::Kind::kReceiveDone) {
      if (completion.opcode != transport::WcOpcode::kRecvWriteImm) return;
      Slot& slot = slots_[completion.imm_or_rkey >> 16];
      if (slot.state == State::kMoving && slot.messages == (completion.imm_or_rkey & 0xffff)) {
        slot.arrived = true;
      }
      return;
    }
    Slot& slot = slots_[completion.wr_id & 0xff];
    const uint64_t what = completion.wr_id & ~uint64_t{0xff};
    if (what == kConfigured && host == 1 && --slot.configs_open == 0) start(slot);
    if (what == kMoved && !slot.uc) finish(slot);
  }

  SeededRandom random_;
  SeededRandom network_random_;
  transport::Mtu mtu_;
  Time now_ = 0;
  link::RandomFaults faults_;
  link::SimulatedNetwork network_;
  std::array<std::unique_ptr<link::SimulatedNode>, 2> nodes_;
  std::array<KeyMemory, 2> memories_;
  std::array<std::array<Qpn, 2>, 2> qpns_;
  std::array<Slot, kSlots> slots_;
  uint64_t told_ = 0;
  uint64_t uc_delivered_ = 0;
};

}  // namespace

bool check_keys(uint64_t first, uint64_t seeds) {
  uint64_t told = 0;
  uint64_t uc_delivered = 0;
  uint64_t resent = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    std::optional<std::array<uint64_t, kSlots>> digest;
    for (const auto mtu : {transport::Mtu::k256, transport::Mtu::k512, transport::Mtu::k1024,
                           transport::Mtu::k2048, transport::Mtu::k4096}) {
      KeyRun run(seed, mtu);
      try {
        run.run();
        SIM_REQUIRE(digest.value_or(run.digest()) == run.digest(),
                    "other bytes arrived than with the MTU before");
      } catch (const Violation& violation) {
        std::printf("Seed %llu, MTU %u: %s\nRepeat it with\n  ./dev sim --keys 1 --first %llu\n",
                    static_cast<unsigned long long>(seed), transport::mtu_bytes(mtu),
                    violation.what(), static_cast<unsigned long long>(seed));
        return false;
      }
      digest = run.digest();
      told += run.told();
      uc_delivered += run.uc_delivered();
      resent += run.resent();
    }
  }
  std::printf(
      "%llu seeds of keys from %llu at five MTUs: %llu wrong signatures told, %llu UC messages "
      "delivered, %llu packets sent again\nAll good.\n",
      static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
      static_cast<unsigned long long>(told), static_cast<unsigned long long>(uc_delivered),
      static_cast<unsigned long long>(resent));
  return true;
}

}  // namespace verbena::sim
