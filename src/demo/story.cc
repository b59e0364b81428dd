// SPDX-License-Identifier: Apache-2.0
#include "demo/story.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "demo/script.h"
#include "link/simulated_node.h"
#include "wire/describe.h"
#include "wire/pcap.h"

namespace verbena::demo {
namespace {

using link::FrameEvent;
using transport::SendOp;
using wire::Op;
using wire::Service;

constexpr uint32_t kMtu = 1024;
constexpr uint32_t kMemoryBytes = 16 * 1024;
constexpr uint64_t kIova = 0x10'0000;
constexpr Duration kPatience = kSecond;

[[nodiscard]] uint8_t rc(Op op) { return wire::opcode_byte(Service::kRc, op); }

// What the network does wrong, and when.
[[nodiscard]] std::vector<Mishap> mishaps() {
  using enum Mishap::Kind;
  return {{rc(Op::kWriteMiddle), 2, kLose},            // a hole: B says what it holds
          {rc(Op::kSendOnlyImm), 1, kDouble},          // must be delivered once
          {rc(Op::kReadResponseMiddle), 1, kCorrupt},  // dropped by its ICRC, asked for again
          {rc(Op::kAtomicAcknowledge), 1,
           kLose},  // the result is sent again, the add is not done again
          {rc(Op::kWriteMiddle), 7, kHoldBack}};  // overtaken by the next
}

class Story final : private link::NetworkObserver {
 public:
  explicit Story(const StoryOptions& options)
      : options_(options),
        random_(options.seed),
        faults_(mishaps()),
        network_({.delay = 10 * kMicrosecond}, faults_),
        a_(network_, random_, {.address = wire::Gid::from_ipv4(10, 0, 0, 1)}),
        b_(network_, random_, {.address = wire::Gid::from_ipv4(10, 0, 0, 2)}),
        writer_(capture_) {
    network_.set_observer(this);
    a_.memory_bytes.resize(kMemoryBytes);
    b_.memory_bytes.resize(kMemoryBytes);
    prepare(a_);
    prepare(b_);
    connect(a_, b_);
    connect(b_, a_);
  }

  StoryResult run() {
    say("Two hosts, A (10.0.0.1) and B (10.0.0.2), one reliable connection, MTU %u. Times in "
        "microseconds.\n",
        kMtu);
    say("The network is about to lose, double, corrupt and swap some packets.\n");
    bool good = true;
    fill(a_, 0, 5000);
    good &=
        act("A writes 5000 bytes into B's memory (RDMA WRITE, 5 packets)", SendOp::kWrite, 0, 5000);
    good &= same(0, 5000);
    post_receive();
    fill(a_, 6000, 300);
    good &= act("A sends a message with immediate data 0x2a (SEND)", SendOp::kSendImm, 6000, 300);
    good &= same(6000, 300) && b_.received == 1;
    fill(b_, 7000, 4000);
    good &= act("A reads 4000 bytes of B's memory (RDMA READ)", SendOp::kRead, 7000, 4000);
    good &= same(7000, 4000);
    const uint64_t before = 41;
    std::memcpy(b_.memory_bytes.data() + 12'000, &before, 8);
    good &=
        act("A adds 1 to a counter at B that holds 41 (FETCH-ADD)", SendOp::kFetchAdd, 12'000, 8);
    good &= word(a_, 12'000) == 41 && word(b_, 12'000) == 42;
    fill(a_, 0, 4500);
    good &= act("A writes again, and one packet is overtaken", SendOp::kWrite, 0, 4500);
    good &= same(0, 4500);
    good &= faults_.happened() == mishaps().size();
    summary(good);
    return {good, std::move(text_), std::move(capture_)};
  }

 private:
  struct Side {
    Side(link::SimulatedNetwork& network, RandomSource& random, const link::NodeOptions& options)
        : node(network, random, options) {}
    link::SimulatedNode node;
    std::vector<uint8_t> memory_bytes;
    PdId pd{};
    memory::RegionKeys keys{};
    Qpn qpn{};
    uint32_t received = 0;
  };

  // Addresses are the script's, so that a seed is a story on any machine.
  static uint64_t address(uint64_t offset) { return kIova + offset; }
  static uint64_t word(const Side& side, uint64_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, side.memory_bytes.data() + offset, 8);
    return value;
  }
  [[nodiscard]] bool same(uint64_t offset, uint64_t bytes) const {
    return std::memcmp(a_.memory_bytes.data() + offset, b_.memory_bytes.data() + offset, bytes) ==
           0;
  }
  void fill(Side& side, uint64_t offset, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; ++i) {
      side.memory_bytes[offset + i] = static_cast<uint8_t>(random_.next());
    }
  }

  void prepare(Side& side) {
    const uint32_t all =
        memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
    side.pd = *side.node.memory().allocate_pd();
    side.keys = *side.node.memory().register_region(side.pd, {.base = side.memory_bytes.data(),
                                                              .length = side.memory_bytes.size(),
                                                              .iova = address(0),
                                                              .access = all});
    side.qpn = *side.node.endpoint().create_qp({.type = transport::QpType::kRc,
                                                .pd = side.pd,
                                                .send_cq = side.node.send_cq(),
                                                .recv_cq = side.node.recv_cq(),
                                                .send = {8, 1, 0},
                                                .max_recv_entries = 8,
                                                .max_recv_sge = 1,
                                                .signal_all = true});
  }

  static void connect(Side& side, const Side& peer) {
    using namespace transport;  // NOLINT
    QpAttr attr;
    attr.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
    attr.path = {.source = side.node.address(), .destination = peer.node.address()};
    attr.mtu = Mtu::k1024;
    attr.dest_qpn = peer.qpn;
    attr.timeout = 12;
    attr.retry_count = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    // Just below the wrap of the 24-bit packet sequence number, where it is interesting.
    attr.rq_psn = attr.sq_psn = wire::Psn(0xfffffb);
    attr.state = QpState::kInit;
    (void)side.node.endpoint().modify_qp(side.qpn, attr,
                                         kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess, 0);
    attr.state = QpState::kRtr;
    (void)side.node.endpoint().modify_qp(side.qpn, attr,
                                         kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn |
                                             kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
                                         0);
    attr.state = QpState::kRts;
    (void)side.node.endpoint().modify_qp(
        side.qpn, attr,
        kAttrState | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic,
        0);
  }

  void post_receive() {
    const std::array<memory::Sge, 1> list{memory::Sge{address(6000), 1000, b_.keys.lkey}};
    (void)b_.node.endpoint().post_recv(b_.qpn, {2, list});
  }

  // Posts one operation at A and tells everything until it is complete and the wire is quiet.
  bool act(const char* title, SendOp op, uint64_t offset, uint32_t bytes) {
    say("\n%s%s%s\n", bold(), title, plain());
    const std::array<memory::Sge, 1> list{memory::Sge{address(offset), bytes, a_.keys.lkey}};
    transport::SendRequest request;
    request.wr_id = ++work_;
    request.op = op;
    request.list = list;
    request.imm = 0x2a;
    request.remote_addr = RemoteAddr(address(offset));
    request.rkey = b_.keys.rkey;
    request.compare_add = 1;
    completed_ = false;
    a_.node.set_time(now_);
    const bool posted = a_.node.endpoint().post_send(a_.qpn, request, now_).has_value();
    const Time limit = now_ + kPatience;
    while (posted && now_ < limit) {
      report_notices();
      const Time next =
          std::min({network_.next_arrival(), a_.node.next_event(), b_.node.next_event()});
      if (completed_ && next == kNever) break;
      if (next == kNever) return false;
      now_ = std::max(now_, next);
      a_.node.set_time(now_);
      b_.node.set_time(now_);
      network_.deliver_due(now_);
      a_.node.run(now_);
      b_.node.run(now_);
    }
    return completed_;
  }

  void report_notices() {
    for (Side* const side : {&a_, &b_}) {
      for (const link::Notice& notice : side->node.take_notices()) {
        const char* const who = side == &a_ ? "A" : "B";
        if (notice.kind == link::Notice::Kind::kSendDone) {
          completed_ = notice.completion.status == transport::WcStatus::kSuccess;
          line("%s%s: work request %lu complete: %s%s", green(), who,
               static_cast<unsigned long>(notice.completion.wr_id),
               to_string(notice.completion.status), plain());
        } else if (notice.kind == link::Notice::Kind::kReceiveDone) {
          ++side->received;
          line("%s%s: received %u bytes, immediate 0x%x%s", green(), who,
               notice.completion.byte_len, notice.completion.imm_or_rkey, plain());
        }
      }
    }
  }

  void on_frame(const FrameEvent& event) override {
    const char* const arrow = event.from == a_.node.port() ? "A -> B" : "B -> A";
    switch (event.kind) {
      case FrameEvent::Kind::kSent:
        writer_.add(event.time, event.bytes);
        line("%s  %s", arrow, packet_text(event.bytes).c_str());
        break;
      case FrameEvent::Kind::kLost: line("%s        lost on the way%s", red(), plain()); break;
      case FrameEvent::Kind::kDuplicated:
        line("%s        delivered twice%s", red(), plain());
        break;
      case FrameEvent::Kind::kDelayed: line("%s        held back%s", red(), plain()); break;
      case FrameEvent::Kind::kCorrupted:
        writer_.add(event.time, event.bytes);
        line("%s        one bit flipped: the receiver will drop it for its ICRC%s", red(), plain());
        break;
      default: break;
    }
  }

  [[nodiscard]] static std::string packet_text(std::span<const uint8_t> frame) {
    const auto packet = link::open_frame(frame);
    return packet ? wire::describe(packet->view) : std::string("(not a packet)");
  }

  void summary(bool good) {
    const transport::Counters& a = a_.node.endpoint().counters();
    const transport::Counters& b = b_.node.endpoint().counters();
    say("\n%s%s%s\n", bold(),
        good ? "Every operation completed, and both memories are as they should be."
             : "Something is not as it should be.",
        plain());
    for (size_t i = 0; i < transport::kCounters; ++i) {
      const uint64_t sum = a.at(i) + b.at(i);
      if (sum != 0) say("  %6lu %s\n", static_cast<unsigned long>(sum), transport::kCounterText[i]);
    }
    say("  %6lu packets dropped for a wrong ICRC\n",
        static_cast<unsigned long>(a_.node.bad_frames() + b_.node.bad_frames()));
  }

  [[gnu::format(printf, 2, 3)]] void say(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append(format, arguments);
    va_end(arguments);
  }
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    say("%9.1f  ", static_cast<double>(now_) / kMicrosecond);
    va_list arguments;
    va_start(arguments, format);
    append(format, arguments);
    va_end(arguments);
    text_ += '\n';
  }
  void append(const char* format, va_list arguments) {
    std::array<char, 512> buffer{};
    (void)std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
    text_ += buffer.data();
  }
  [[nodiscard]] const char* bold() const { return options_.colors ? "\033[1m" : ""; }
  [[nodiscard]] const char* red() const { return options_.colors ? "\033[31m" : ""; }
  [[nodiscard]] const char* green() const { return options_.colors ? "\033[32m" : ""; }
  [[nodiscard]] const char* plain() const { return options_.colors ? "\033[0m" : ""; }

  StoryOptions options_;
  SeededRandom random_;
  ScriptedFaults faults_;
  link::SimulatedNetwork network_;
  Side a_;
  Side b_;
  Time now_ = 0;
  uint64_t work_ = 0;
  bool completed_ = false;
  std::string text_;
  std::vector<uint8_t> capture_;
  wire::PcapWriter writer_;
};

}  // namespace

StoryResult tell_story(const StoryOptions& options) {
  Story story(options);
  return story.run();
}

}  // namespace verbena::demo
