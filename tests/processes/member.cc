// SPDX-License-Identifier: Apache-2.0
#include "processes/member.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/random.h"
#include "device/device.h"
#include "link/clock.h"
#include "link/shared_table.h"

namespace verbena::processes {
namespace {

using transport::Completion;
using transport::SendOp;
using transport::WcStatus;

constexpr uint32_t kMaxBytes = 6000;
constexpr uint32_t kArea = 6144;
constexpr uint32_t kSlots = 8;  // messages in flight each way are at most two
constexpr uint32_t kBlocks = 96;

struct Message {
  enum Kind : uint32_t { kCheck = 1, kVerified };
  uint32_t kind;
  uint32_t round;
  uint32_t length;
};

// What belongs to one connection.
struct Block {
  std::array<uint8_t, kArea> inbox;     // the peer writes
  std::array<uint8_t, kArea> source;    // the peer reads
  std::array<uint8_t, kArea> outgoing;  // we write from
  std::array<uint8_t, kArea> target;    // we read into
  std::array<Message, kSlots> receives;
  std::array<Message, kSlots> sends;
};

enum class Work : uint8_t { kWrite, kSend, kRead, kRecv };

struct Connection {
  enum class Phase : uint8_t { kOffered, kHearing, kRunning, kDying };
  uint32_t id = 0;
  uint32_t peer = 0;
  uint32_t peer_incarnation = 0;
  Phase phase = Phase::kOffered;
  std::unique_ptr<device::Qp> qp;
  uint32_t block = 0;
  uint32_t remote_rkey = 0;
  uint64_t remote_block = 0;
  uint32_t round = 0;
  Time next_round = 0;
  uint32_t length = 0;
  bool in_round = false;
  bool verified = false;
  uint32_t outstanding = 0;  // sends of any kind
  uint32_t sent = 0;
  std::optional<WcStatus> first_error;
};

// Bytes that nobody else would write: they depend on who, to whom, when and where.
[[nodiscard]] uint64_t seed_of(uint32_t from, uint32_t from_incarnation, uint32_t to,
                               uint32_t to_incarnation, uint32_t round) {
  return (uint64_t{from} << 8 | to) * 0x100000001b3 +
         stamp_of(from_incarnation, to_incarnation) * 31 + uint64_t{round} * 0x9e3779b97f4a7c15;
}
[[nodiscard]] uint8_t byte_at(uint64_t seed, uint32_t index) {
  return static_cast<uint8_t>(((seed + index) * 0x9e3779b97f4a7c15) >> 56);
}
void fill(uint8_t* bytes, uint32_t length, uint64_t seed) {
  for (uint32_t i = 0; i < length; ++i) bytes[i] = byte_at(seed, i);
}
[[nodiscard]] bool matches(const uint8_t* bytes, uint32_t length, uint64_t seed) {
  for (uint32_t i = 0; i < length; ++i) {
    if (bytes[i] != byte_at(seed, i)) return false;
  }
  return true;
}

class Member {
 public:
  Member(Board& board, uint32_t seat, const MemberOptions& options)
      : board_(board),
        self_(board.seats[seat]),
        seat_(seat),
        incarnation_(self_.incarnation),
        options_(options),
        random_(stamp_of(seat + 1, incarnation_)),
        context_(open()),
        blocks_(kBlocks) {
    for (uint32_t i = 0; i < kBlocks; ++i) free_blocks_.push_back(i);
    pd_ = *context_.alloc_pd();
    cq_ = *context_.create_cq(8192, &channel_);
    (void)::fcntl(channel_.fd(), F_SETFL, O_NONBLOCK);
    mr_ = *context_.reg_mr(*pd_, blocks_.data(), kBlocks * sizeof(Block),
                           reinterpret_cast<uint64_t>(blocks_.data()),
                           memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead);
    for (uint32_t i = 0; i < kSeats; ++i) {
      self_.rounds_with[i] = 0;
      self_.rounds_with_peer[i] = 0;
      self_.deaths_with[i] = 0;
    }
    self_.finished = 0;
    self_.joined = incarnation_;
  }

  ~Member() {
    while (!connections_.empty()) drop(connections_.begin()->first);
    must(context_.dereg_mr(*mr_), "dereg_mr");
    must(context_.destroy_cq(*cq_), "destroy_cq");
    must(context_.dealloc_pd(*pd_), "dealloc_pd");
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void run() {
    while (self_.leave == 0) {
      look_around();
      if (!work()) sleep();
    }
  }

 private:
  [[noreturn]] void fail(const std::string& why) {
    (void)std::snprintf(self_.failure.data(), self_.failure.size(), "seat %u.%u: %s", seat_,
                        incarnation_, why.c_str());
    self_.failed = 1;
    ::_exit(1);
  }
  void must(int error, const char* what) {
    if (error != 0) fail(std::string(what) + ": " + std::strerror(error));
  }
  [[nodiscard]] std::shared_ptr<device::Device> open() {
    auto device = device::Device::acquire(options_.engine);
    if (!device) fail(device.error().what);
    return *device;
  }
  [[nodiscard]] Block& block(const Connection& c) { return blocks_[c.block]; }
  [[nodiscard]] bool is_gone(const Connection& c) const {
    const Seat& seat = board_.seats[c.peer];
    return seat.doomed >= c.peer_incarnation || seat.incarnation != c.peer_incarnation;
  }

  // --- connecting
  void look_around() {
    // Read first: who was killed before we were told to finish is seen to be gone below.
    const bool finishing = self_.finish != 0;
    for (uint32_t peer = 0; peer < kSeats; ++peer) {
      if (peer == seat_) continue;
      Connection* c = current_[peer];
      if (c != nullptr && is_gone(*c)) {
        current_[peer] = nullptr;
        if (c->phase == Connection::Phase::kRunning) {
          die(*c);
        } else {
          drop(c->id);
        }
        c = nullptr;
      }
      const Seat& seat = board_.seats[peer];
      const uint32_t there = seat.joined;
      if (c == nullptr && there != 0 && there == seat.incarnation && seat.doomed < there &&
          !finishing) {
        offer(peer, there);
      } else if (c != nullptr && c->phase != Connection::Phase::kRunning) {
        advance(*c);
      } else if (c != nullptr) {
        start_round(*c);
      }
    }
    const bool busy = std::ranges::any_of(connections_, [](const auto& item) {
      return item.second.in_round || item.second.phase == Connection::Phase::kDying;
    });
    self_.finished = finishing && !busy ? 1 : 0;
  }

  void offer(uint32_t peer, uint32_t incarnation) {
    if (free_blocks_.empty()) return;  // until those that die have died
    Connection& c = connections_[++last_id_];
    c.id = last_id_;
    c.peer = peer;
    c.peer_incarnation = incarnation;
    c.block = free_blocks_.back();
    free_blocks_.pop_back();
    current_[peer] = &c;
    fill(block(c).source.data(), kArea, seed_of(seat_, incarnation_, peer, incarnation, 0));
    device::QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.send = {16, 1, 0};
    request.max_recv_entries = kSlots;
    request.max_recv_sge = 1;
    request.signal_all = true;
    auto qp = context_.create_qp(*pd_, request);
    if (!qp) fail("create_qp");
    c.qp = std::move(*qp);
    transport::QpAttr attr;
    attr.port = 1;
    attr.access = memory::kRemoteWrite | memory::kRemoteRead;
    attr.state = transport::QpState::kInit;
    must(context_.modify_qp(*c.qp, attr,
                            transport::kAttrState | transport::kAttrPkeyIndex |
                                transport::kAttrPort | transport::kAttrAccess),
         "INIT");
    for (uint32_t slot = 0; slot < kSlots; ++slot) post_recv(c, slot);
    Offer& offer = board_.offers[seat_][peer];
    offer.qpn = c.qp->qpn.value;
    offer.rkey = mr_->rkey.value;
    offer.block = reinterpret_cast<uint64_t>(&block(c));
    offer.stamp.store(stamp_of(incarnation_, incarnation), std::memory_order_release);
  }

  void advance(Connection& c) {
    const Offer& theirs = board_.offers[c.peer][seat_];
    const uint64_t stamp = stamp_of(c.peer_incarnation, incarnation_);
    if (c.phase == Connection::Phase::kOffered) {
      if (theirs.stamp.load(std::memory_order_acquire) != stamp) return;
      c.remote_rkey = theirs.rkey;
      c.remote_block = theirs.block;
      connect(c, Qpn(theirs.qpn));
      c.phase = Connection::Phase::kHearing;
      board_.offers[seat_][c.peer].ready.store(stamp_of(incarnation_, c.peer_incarnation),
                                               std::memory_order_release);
    }
    if (theirs.ready.load(std::memory_order_acquire) == stamp)
      c.phase = Connection::Phase::kRunning;
  }

  void connect(const Connection& c, Qpn remote) {
    using namespace transport;  // NOLINT
    const wire::Gid own = options_.addresses[self_.host];
    const auto index = context_.device().gids().find(own);
    if (!index) fail("our address is not in the GID table");
    const auto path = context_.device().resolve(
        {.destination = options_.addresses[board_.seats[c.peer].host], .source_index = *index});
    if (!path) fail("no path");
    QpAttr attr;
    attr.path = *path;
    attr.mtu = Mtu::k1024;
    attr.dest_qpn = remote;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.timeout = options_.timeout;
    attr.retry_count = options_.retries;
    attr.rnr_retry = 7;
    attr.state = QpState::kRtr;
    must(context_.modify_qp(*c.qp, attr,
                            kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                                kAttrMaxDestRdAtomic | kAttrMinRnrTimer),
         "RTR");
    attr.state = QpState::kRts;
    must(context_.modify_qp(*c.qp, attr,
                            kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCount |
                                kAttrRnrRetry | kAttrMaxRdAtomic),
         "RTS");
  }

  void drop(uint32_t id) {
    const auto place = connections_.find(id);
    Connection& c = place->second;
    if (current_[c.peer] == &c) current_[c.peer] = nullptr;
    if (c.qp) must(context_.destroy_qp(*c.qp), "destroy_qp");
    free_blocks_.push_back(c.block);
    connections_.erase(place);
  }

  // --- work
  [[nodiscard]] static uint64_t wr_id(const Connection& c, Work work, uint32_t slot) {
    return uint64_t{c.id} << 16 | uint64_t{slot} << 8 | static_cast<uint64_t>(work);
  }
  void post_recv(const Connection& c, uint32_t slot) {
    const std::array<memory::Sge, 1> list{memory::Sge{
        reinterpret_cast<uint64_t>(&block(c).receives[slot]), sizeof(Message), mr_->lkey}};
    must(context_.post_recv(*c.qp, {wr_id(c, Work::kRecv, slot), list}), "post_recv");
  }
  void post(Connection& c, Work work, SendOp op, const void* local, uint32_t bytes,
            uint64_t remote_offset) {
    const std::array<memory::Sge, 1> list{
        memory::Sge{reinterpret_cast<uint64_t>(local), bytes, mr_->lkey}};
    transport::SendRequest request;
    request.wr_id = wr_id(c, work, 0);
    request.op = op;
    request.list = list;
    request.remote_addr = RemoteAddr(c.remote_block + remote_offset);
    request.rkey = RKey(c.remote_rkey);
    must(context_.post_send(*c.qp, request), "post_send");
    ++c.outstanding;
  }
  void send(Connection& c, const Message& message) {
    Message& slot = block(c).sends[c.sent++ % kSlots];
    slot = message;
    post(c, Work::kSend, SendOp::kSend, &slot, sizeof slot, 0);
  }

  void start_round(Connection& c) {
    const Time now = link::monotonic_now();
    if (c.in_round || self_.finish != 0 || now < c.next_round) return;
    c.in_round = true;
    c.next_round = now + options_.pause;
    c.verified = false;
    ++c.round;
    c.length = 1 + static_cast<uint32_t>(random_.below(kMaxBytes));
    Block& own = block(c);
    fill(own.outgoing.data(), c.length,
         seed_of(seat_, incarnation_, c.peer, c.peer_incarnation, c.round));
    own.target.fill(0);
    post(c, Work::kWrite, SendOp::kWrite, own.outgoing.data(), c.length, offsetof(Block, inbox));
    send(c, {Message::kCheck, c.round, c.length});
    post(c, Work::kRead, SendOp::kRead, own.target.data(), c.length, offsetof(Block, source));
  }

  void end_round_if_done(Connection& c) {
    if (!c.in_round || !c.verified || c.outstanding != 0) return;
    c.in_round = false;
    ++self_.rounds;
    self_.rounds_with_peer[c.peer] = c.peer_incarnation;
    ++self_.rounds_with[c.peer];
  }

  // The peer is gone: something must be under way for an error to come of it.
  void die(Connection& c) {
    c.phase = Connection::Phase::kDying;
    c.in_round = false;
    if (c.outstanding == 0 && !c.first_error) {
      post(c, Work::kWrite, SendOp::kWrite, block(c).outgoing.data(), 1, offsetof(Block, inbox));
    }
  }

  [[nodiscard]] bool work() {
    std::array<Completion, 64> completions;
    const uint32_t got = context_.poll_cq(*cq_, completions);
    for (uint32_t i = 0; i < got; ++i) {
      const auto place = connections_.find(static_cast<uint32_t>(completions[i].wr_id >> 16));
      if (place != connections_.end()) complete(place->second, completions[i]);
    }
    return got != 0;
  }

  void complete(Connection& c, const Completion& completion) {
    const auto work = static_cast<Work>(completion.wr_id & 0xff);
    if (work != Work::kRecv) --c.outstanding;
    if (completion.status != WcStatus::kSuccess) return complete_badly(c, work, completion.status);
    if (work == Work::kRecv) {
      const auto slot = static_cast<uint32_t>(completion.wr_id >> 8) & 0xff;
      const Message message = block(c).receives[slot];
      post_recv(c, slot);
      receive(c, message);
    } else if (work == Work::kRead && c.phase == Connection::Phase::kRunning &&
               !matches(block(c).target.data(), c.length,
                        seed_of(c.peer, c.peer_incarnation, seat_, incarnation_, 0))) {
      fail("a READ brought wrong bytes");
    }
    if (c.phase == Connection::Phase::kDying) {
      die(c);
    } else {
      end_round_if_done(c);
    }
  }

  void complete_badly(Connection& c, Work work, WcStatus status) {
    if (!is_gone(c)) {
      fail(std::string("a connection with a living process failed: ") + to_string(status));
    }
    if (c.phase == Connection::Phase::kRunning) {
      current_[c.peer] = nullptr;
      c.phase = Connection::Phase::kDying;
    }
    if (work != Work::kRecv) {
      if (!c.first_error && status != WcStatus::kRetryExceeded) {
        fail(std::string("a process is gone, and the first error is ") + to_string(status));
      }
      if (c.first_error && status != WcStatus::kFlushed) {
        fail(std::string("after the first error comes ") + to_string(status));
      }
      c.first_error = status;
    }
    if (c.first_error && c.outstanding == 0) {
      ++self_.deaths;
      ++self_.deaths_with[c.peer];
      drop(c.id);
    }
  }

  void receive(Connection& c, const Message& message) {
    if (message.kind == Message::kVerified) {
      if (message.round != c.round) fail("an answer to another round");
      c.verified = true;
      return;
    }
    if (message.length > kMaxBytes ||
        !matches(block(c).inbox.data(), message.length,
                 seed_of(c.peer, c.peer_incarnation, seat_, incarnation_, message.round))) {
      fail("a WRITE brought wrong bytes");
    }
    ++self_.messages;
    if (c.phase == Connection::Phase::kDying) return;
    c.phase = Connection::Phase::kRunning;  // the peer speaks: it hears us, too
    send(c, {Message::kVerified, message.round, 0});
  }

  void sleep() {
    context_.req_notify_cq(*cq_, false);
    if (work()) return;
    pollfd waiting{channel_.fd(), POLLIN, 0};
    (void)::poll(&waiting, 1, 1);  // the board has no descriptor
    device::CompletionQueue* which = nullptr;
    (void)channel_.wait(which);
    if (++sleeps_ % 64 != 0) return;
    const device::Engine::Locked locked(context_.device().engine());
    self_.overflows = context_.device().engine().link().receive_counters().overflow;
  }

  Board& board_;
  Seat& self_;
  const uint32_t seat_;
  const uint32_t incarnation_;
  const MemberOptions& options_;
  SeededRandom random_;
  device::Context context_;
  device::CompletionChannel channel_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_blocks_;
  std::unique_ptr<device::Pd> pd_;
  std::unique_ptr<device::CompletionQueue> cq_;
  std::unique_ptr<device::Mr> mr_;
  uint32_t last_id_ = 0;
  uint32_t sleeps_ = 0;
  std::unordered_map<uint32_t, Connection> connections_;
  std::array<Connection*, kSeats> current_{};
};

}  // namespace

void live(Board& board, uint32_t seat, const MemberOptions& options) {
  {
    Member member(board, seat, options);
    member.run();
  }
  board.seats[seat].left = 1;
}

}  // namespace verbena::processes
