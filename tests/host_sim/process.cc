// SPDX-License-Identifier: Apache-2.0
#include "host_sim/process.h"

#include <algorithm>
#include <span>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "host_sim/contents.h"

namespace verbena::host_sim {
namespace {

using transport::WcStatus;

constexpr uint32_t kEntries = 512;
constexpr uint32_t kRounds = 6;
constexpr uint32_t kLooks = 60;  // for somebody to talk to
const wire::Gid kHere = wire::Gid::from_ipv4(127, 0, 0, 1);
constexpr Duration kSlotRest = 50 * kMillisecond;
// Longer than anybody is stopped, and than a dead process is tried for.
constexpr Duration kAnswerWithin = 20 * kSecond;
constexpr uint64_t kRead = uint64_t{1} << 63;  // of work request ids
constexpr uint64_t kBulk = kRead - 1;          // what bulk contains
constexpr uint32_t kBulkWrites = 20;
constexpr uint64_t kHasBulk = uint64_t{1} << 32;  // of a message's length: bulk came before it

}  // namespace

Process::Process(const ProcessParts& parts, uint32_t id)
    : parts_(parts),
      id_(id),
      random_(parts.scheduler.random().next()),
      nudge_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rounds_(kRounds),
      looks_(kLooks) {}

Process::~Process() = default;

void Process::violation(const std::string& what) const {
  parts_.others.violation("process " + std::to_string(id_) + ": " + what);
}

std::string Process::describe() const {
  std::string all = "process " + std::to_string(id_) + ": rounds left " + std::to_string(rounds_);
  for (const auto& peer : peers_) {
    all += "; to " + std::to_string(peer->connection->peer_of(id_).process) + ": sent " +
           std::to_string(peer->sent) + " of " + std::to_string(peer->posted) + ", received " +
           std::to_string(peer->received) + (peer->reading ? ", reads" : "") +
           (peer->connected ? "" : ", not connected") + (peer->broken ? ", broken" : "");
  }
  return all;
}

Duration Process::waits_beside(uint32_t stopped, Time since) const {
  Duration longest = 0;
  if (leaving_) return longest;  // it does not look any more
  for (const auto& peer : peers_) {
    const uint32_t other = peer->connection->peer_of(id_).process;
    const bool waits = peer->posted != peer->sent || peer->reading;
    if (!waits || other == stopped || !parts_.others.stays(other)) continue;
    longest = std::max(longest, parts_.scheduler.now() - std::max(peer->posted_at, since));
  }
  return longest;
}

uint64_t Process::sent_beside(uint32_t stopped) const {
  uint64_t sent = 0;
  for (const auto& peer : peers_) {
    if (peer->connection->peer_of(id_).process != stopped && !peer->broken) sent += peer->sent;
  }
  return sent;
}

void Process::ask_to_leave() {
  leaving_ = true;
  const uint64_t one = 1;
  (void)!::write(nudge_.get(), &one, sizeof one);
}

uint64_t Process::helper_wakeups() const {
  engine_->lock().assert_held();  // the world stands still
  return engine_->counters().helper_wakeups;
}

uint64_t Process::probes() const {
  engine_->lock().assert_held();
  const auto& counters = engine_->transport_counters();
  return counters[transport::Counter::kTailProbe] + counters[transport::Counter::kTimeout];
}

int64_t Process::credits_out() const {
  auto& host = const_cast<link::Membership&>(engine_->host());
  return host.table().inboxes[host.slot()].outstanding.load();
}

// --- begin and end

bool Process::open() {
  device::EngineOptions options;
  options.host.group = parts_.group;
  options.host.slot_rest = kSlotRest;
  options.host.this_host_if_taken = false;
  // Some are without shared memory: what they send and get goes by sockets.
  options.link = draw(3) == 0 ? link::LinkKind::kUdp : link::LinkKind::kAuto;
  options.limits.max_queue_entries = kEntries;
  options.quiet = true;
  auto engine = device::Engine::make(options, *this);
  if (!engine) {
    violation("cannot open the device: " + engine.error().what);
    return false;
  }
  if (!(*engine)->start_helper()) return false;
  engine_ = std::move(*engine);
  sent_queue_ = std::make_unique<device::CompletionQueue>(*engine_, kEntries, &sent_channel_);
  received_queue_ =
      std::make_unique<device::CompletionQueue>(*engine_, kEntries, &received_channel_);
  const device::Engine::Quiet quiet(*engine_);
  pd_ = *quiet.memory().allocate_pd();
  return true;
}

void Process::close() {
  {
    const device::Engine::Locked locked(*engine_);
    for (const auto& peer : peers_) (void)locked.endpoint().destroy_qp(peer->qpn);
    for (auto* const cq : {sent_queue_.get(), received_queue_.get()}) {
      cq->channel()->forget(*cq);
      engine_->forget(*cq);
    }
  }
  if (draw(2) == 0) engine_->shut_down(kSecond);
  // The object goes last: others look at it.
  std::unique_ptr<device::Engine> gone = std::move(engine_);
  gone.reset();
  left_ = true;
}

void Process::bury() {
  if (engine_ == nullptr) return;
  engine_->before_fork();
  engine_->abandon_in_child();
  engine_.reset();
}

// --- connections

void Process::look_for_peers() {
  for (Connection& connection : parts_.others.connections()) {
    if (!connection.is_of(id_)) continue;
    const auto known =
        std::ranges::find(peers_, &connection, [](const auto& peer) { return peer->connection; });
    if (known == peers_.end()) {
      if (!parts_.others.stays(connection.peer_of(id_).process)) continue;
      auto made = make_peer(connection);
      if (made == nullptr) return violation("a queue pair cannot be made");
      peer_of_.emplace(made->qpn.value, peers_.size());
      peers_.push_back(std::move(made));
      connection.end_of(id_).qpn = peers_.back()->qpn;
    } else if (!(*known)->connected && connection.peer_of(id_).qpn.value != 0) {
      connect(**known);
    }
  }
}

std::unique_ptr<Process::Peer> Process::make_peer(Connection& connection) {
  auto peer = std::make_unique<Peer>();
  peer->connection = &connection;
  peer->area = std::make_unique<Area>();
  Connection::End& end = connection.end_of(id_);
  fill(peer->area->to_read, id_);
  fill(peer->area->bulk_to_write, contents_of(id_, kBulk));
  const device::Engine::Locked locked(*engine_);
  auto& area = *peer->area;
  const auto keys = locked.memory().register_region(
      pd_, {.base = reinterpret_cast<uint8_t*>(&area),
            .length = sizeof area,
            .iova = 0,
            .access = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead});
  if (!keys) return nullptr;
  peer->lkey = keys->lkey;
  end.rkey = keys->rkey;
  end.first_psn = static_cast<uint32_t>(random_.next() & 0xffffff);
  const transport::QpInit init{.type = transport::QpType::kRc,
                               .pd = pd_,
                               .send_cq = sent_queue_.get(),
                               .recv_cq = received_queue_.get(),
                               .send = {64, 1, 64},
                               .max_recv_entries = kReceives,
                               .max_recv_sge = 1};
  const auto qpn = locked.endpoint().create_qp(init, engine_->draw_qpn());
  if (!qpn) return nullptr;
  peer->qpn = *qpn;
  peer->queue = locked.endpoint().queue_pair(*qpn);
  transport::QpAttr attr;
  attr.state = transport::QpState::kInit;
  attr.port = 1;
  attr.access = memory::kRemoteWrite | memory::kRemoteRead;
  const uint32_t mask = transport::kAttrState | transport::kAttrPkeyIndex | transport::kAttrPort |
                        transport::kAttrAccess;
  if (!locked.endpoint().modify_qp(peer->qpn, attr, mask, locked.now())) return nullptr;
  return peer;
}

void Process::connect(Peer& peer) {
  using namespace transport;  // NOLINT
  const Connection::End& there = peer.connection->peer_of(id_);
  const Connection::End& here = peer.connection->end_of(id_);
  constexpr std::array<Mtu, 3> kMtus{Mtu::k256, Mtu::k1024, Mtu::k4096};
  QpAttr attr;
  attr.path = {.source = kHere, .destination = kHere};
  // The same at both ends.
  attr.mtu = kMtus[(here.first_psn + there.first_psn) % kMtus.size()];
  attr.dest_qpn = there.qpn;
  attr.sq_psn = wire::Psn(here.first_psn);
  attr.rq_psn = wire::Psn(there.first_psn);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.timeout = 14;
  attr.retry_count = 7;
  attr.rnr_retry = 7;
  for (uint64_t i = 0; i < kReceives; ++i) {
    if (!post_receive(peer, i)) return violation("a receive cannot be posted");
  }
  const device::Engine::Locked locked(*engine_);
  attr.state = QpState::kRtr;
  bool good = locked.endpoint()
                  .modify_qp(peer.qpn, attr,
                             kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                                 kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
                             locked.now())
                  .has_value();
  attr.state = QpState::kRts;
  good = good && locked.endpoint()
                     .modify_qp(peer.qpn, attr,
                                kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCount |
                                    kAttrRnrRetry | kAttrMaxRdAtomic,
                                locked.now())
                     .has_value();
  if (!good) violation("a queue pair cannot be connected");
  peer.connected = true;
  peer.connection->end_of(id_).connected = true;
}

// --- work

bool Process::post_receive(Peer& peer, uint64_t number) {
  auto& place = peer.area->received[number % kReceives];
  const memory::Sge sge{static_cast<uint64_t>(reinterpret_cast<uint8_t*>(&place) -
                                              reinterpret_cast<uint8_t*>(peer.area.get())),
                        sizeof place, peer.lkey};
  const transport::RecvRequest request{.wr_id = number, .list = {&sge, 1}};
  return engine_->post_receives(*peer.queue, {&request, 1}).count == 1;
}

void Process::post_message(Peer& peer) {
  Area& area = *peer.area;
  const Connection::End& there = peer.connection->peer_of(id_);
  constexpr std::array<uint32_t, 5> kLengths{1, 100, 3000, 9000, kSlotBytes};
  const auto length = static_cast<uint32_t>(1 + draw(kLengths[draw(kLengths.size())]));
  const uint64_t slot = peer.posted % kSlots;
  const auto offset_of = [&area](const void* at) {
    return static_cast<uint64_t>(static_cast<const uint8_t*>(at) -
                                 reinterpret_cast<const uint8_t*>(&area));
  };
  const std::span<uint8_t> bytes(area.to_write.data() + slot * kSlotBytes, length);
  fill(bytes, contents_of(id_, peer.posted));
  const bool bulk = peer.posted == peer.sent && draw(16) == 0;
  if (bulk) post_bulk(peer);
  area.sending[slot] = {peer.posted, length | (bulk ? kHasBulk : 0)};
  const memory::Sge data{offset_of(bytes.data()), length, peer.lkey};
  const memory::Sge word{offset_of(&area.sending[slot]), sizeof area.sending[slot], peer.lkey};
  transport::SendRequest write;
  write.op = transport::SendOp::kWrite;
  write.list = {&data, 1};
  write.remote_addr = RemoteAddr(offset_of(area.written.data() + slot * kSlotBytes));
  write.rkey = there.rkey;
  transport::SendRequest send;
  send.op = transport::SendOp::kSend;
  send.list = {&word, 1};
  send.flags = transport::kSignaled;
  send.wr_id = peer.posted;
  ++messages_;
  if (peer.posted == peer.sent && !peer.reading) peer.posted_at = parts_.scheduler.now();
  ++peer.posted;
  // A queue pair in error takes both, and flushes them.
  const std::array requests{write, send};
  const auto chain =
      draw(2) == 0 ? device::Engine::Chain::kWhole : device::Engine::Chain::kUpToRefused;
  if (engine_->post_sends(*peer.queue, requests, chain).count != requests.size()) {
    violation("a message cannot be posted");
  }
}

// Before the message that says so.
void Process::post_bulk(Peer& peer) {
  Area& area = *peer.area;
  const auto* const begin = reinterpret_cast<const uint8_t*>(&area);
  const memory::Sge data{static_cast<uint64_t>(area.bulk_to_write.data() - begin), kBulkBytes,
                         peer.lkey};
  transport::SendRequest write;
  write.op = transport::SendOp::kWrite;
  write.list = {&data, 1};
  write.remote_addr = RemoteAddr(static_cast<uint64_t>(area.bulk_written.data() - begin));
  write.rkey = peer.connection->peer_of(id_).rkey;
  std::array<transport::SendRequest, kBulkWrites> requests;
  requests.fill(write);
  const auto posted =
      engine_->post_sends(*peer.queue, requests, device::Engine::Chain::kUpToRefused);
  if (posted.count != requests.size()) violation("bulk cannot be posted");
}

void Process::post_read(Peer& peer) {
  Area& area = *peer.area;
  const auto offset_of = [&area](const void* at) {
    return static_cast<uint64_t>(static_cast<const uint8_t*>(at) -
                                 reinterpret_cast<const uint8_t*>(&area));
  };
  peer.read_bytes = static_cast<uint32_t>(1 + draw(kSlotBytes));
  std::ranges::fill(area.read, uint8_t{0});
  const memory::Sge into{offset_of(area.read.data()), peer.read_bytes, peer.lkey};
  transport::SendRequest read;
  read.op = transport::SendOp::kRead;
  read.list = {&into, 1};
  read.flags = transport::kSignaled;
  read.wr_id = kRead;
  read.remote_addr = RemoteAddr(offset_of(area.to_read.data()));
  read.rkey = peer.connection->peer_of(id_).rkey;
  ++reads_;
  if (peer.posted == peer.sent) peer.posted_at = parts_.scheduler.now();
  peer.reading = true;
  const auto posted = engine_->post_sends(*peer.queue, {&read, 1}, device::Engine::Chain::kWhole);
  if (posted.count != 1) violation("a READ cannot be posted");
}

bool Process::has_posted() const {
  return std::ranges::any_of(
      peers_, [](const auto& peer) { return peer->posted != peer->sent || peer->reading; });
}

bool Process::post_some() {
  bool any = false;
  for (const auto& peer : peers_) {
    // Before both ends are connected what is sent is lost, and sent again much later.
    const bool ready = peer->connected && peer->connection->peer_of(id_).connected;
    if (!ready || peer->broken) continue;
    any = true;
    if (draw(3) == 0) continue;
    for (uint64_t left = 1 + draw(kUnderWay); left != 0; --left) {
      if (peer->posted - peer->sent < kUnderWay) post_message(*peer);
    }
    if (!peer->reading && draw(4) == 0) post_read(*peer);
  }
  return any;
}

void Process::post_beside() {
  constexpr Duration kEvery = 10 * kMillisecond;
  const uint32_t stopped = parts_.others.stopped();
  if (stopped == 0 || stopped == id_ || leaving_) return;
  if (parts_.scheduler.now() - posted_beside_at_ < kEvery) return;
  posted_beside_at_ = parts_.scheduler.now();
  for (const auto& peer : peers_) {
    const Connection::End& there = peer->connection->peer_of(id_);
    const bool ready = peer->connected && there.connected && !peer->broken;
    if (!ready || there.process == stopped || !parts_.others.stays(there.process)) continue;
    if (peer->posted == peer->sent && !peer->reading) post_message(*peer);
  }
}

// --- completions

uint32_t Process::take(device::CompletionQueue& cq) {
  std::array<transport::Completion, 4> some;
  // As Context::poll_cq().
  uint32_t got = cq.poll(some);
  if (got != 0) {
    engine_->still_polling();
  } else {
    engine_->poll();
    got = cq.poll(some);
  }
  for (const auto& completion : std::span(some).first(got)) {
    if (&cq == sent_queue_.get()) {
      on_sent(completion);
    } else {
      on_received(completion);
    }
  }
  return got;
}

void Process::on_failed(Peer& peer, const transport::Completion& completion) {
  const uint32_t other = peer.connection->peer_of(id_).process;
  if (!peer.broken && parts_.others.stays(other) && !leaving_) {
    violation("what was posted to process " + std::to_string(other) +
              " failed: " + to_string(completion.status));
  }
  peer.broken = true;
  ++failed_;
}

void Process::on_sent(const transport::Completion& completion) {
  Peer& peer = *peers_[peer_of_.at(completion.qpn.value)];
  const bool good = completion.status == WcStatus::kSuccess;
  // A WRITE completes only when it fails.
  if (!good) on_failed(peer, completion);
  if (completion.wr_id == kRead && peer.reading) {
    peer.reading = false;
    const std::span<const uint8_t> bytes(peer.area->read.data(), peer.read_bytes);
    if (good && !is_filled(bytes, peer.connection->peer_of(id_).process)) {
      violation("a READ brought something else");
    }
    return;
  }
  if (!good) {
    peer.sent = peer.posted;
    return;
  }
  if (completion.wr_id != peer.sent) {
    violation("message " + std::to_string(completion.wr_id) + " completed, not " +
              std::to_string(peer.sent));
  }
  ++peer.sent;
  peer.posted_at = parts_.scheduler.now();
}

void Process::on_received(const transport::Completion& completion) {
  Peer& peer = *peers_[peer_of_.at(completion.qpn.value)];
  if (completion.status != WcStatus::kSuccess) return on_failed(peer, completion);
  const uint32_t from = peer.connection->peer_of(id_).process;
  const auto [sequence, length] = peer.area->received[completion.wr_id % kReceives];
  if (sequence != peer.received || completion.wr_id != peer.received) {
    return violation("message " + std::to_string(sequence) + " of process " + std::to_string(from) +
                     " came, not " + std::to_string(peer.received));
  }
  const std::span<const uint8_t> bytes(
      peer.area->written.data() + sequence % kSlots * kSlotBytes,
      std::min<uint64_t>(static_cast<uint32_t>(length), kSlotBytes));
  if ((length & kHasBulk) != 0 && !is_filled(peer.area->bulk_written, contents_of(from, kBulk))) {
    violation("bulk of process " + std::to_string(from) + " is not there");
  }
  if (!is_filled(bytes, contents_of(from, sequence))) {
    violation("what message " + std::to_string(sequence) + " of process " + std::to_string(from) +
              " says was written is not there");
  }
  ++peer.received;
  if (!post_receive(peer, completion.wr_id + kReceives)) violation("a receive cannot be posted");
}

void Process::poll_until(device::CompletionQueue& cq, Time until) {
  while (take(cq) == 0 && parts_.scheduler.now() < until && !leaving_) {}
}

void Process::sleep_until_event(device::CompletionQueue& cq, device::CompletionChannel& channel,
                                bool by_engine) {
  if (!cq.arm(false)) engine_->armed();
  if (take(cq) != 0) return;
  device::CompletionQueue* which = nullptr;
  if (by_engine) {
    (void)engine_->wait(channel, which);
    return;
  }
  const std::array<int, 2> fds{channel.fd(), nudge_.get()};
  (void)parts_.scheduler.sleep(fds, kNever);
  (void)channel.take(which);
}

// --- the thread that posts

void Process::run() {
  if (!open()) return;
  Scheduler& scheduler = parts_.scheduler;
  parts_.scheduler.spawn(id_, "receives " + std::to_string(id_), [this] { receive(); });
  while (!leaving_ || !receiver_ended_) {
    look_for_peers();
    if (rounds_ != 0 && !leaving_) {
      if (post_some()) --rounds_;
      // There may be nobody.
      if (--looks_ == 0) rounds_ = 0;
    }
    post_beside();
    while (has_posted() && !leaving_) {
      for (const auto& peer : peers_) {
        const bool waits = peer->posted != peer->sent || peer->reading;
        if (waits && scheduler.now() - peer->posted_at > kAnswerWithin) {
          return violation("what it posted does not complete: " + describe());
        }
      }
      post_beside();
      // It does not sleep on the stopped one's answer: there is something to do meanwhile.
      const bool may_sleep = parts_.others.stopped() == 0;
      const uint64_t way = draw(3);
      switch (way == 1 && !may_sleep ? 2 : way) {
        case 0: poll_until(*sent_queue_, scheduler.now() + kMillisecond); break;
        case 1: sleep_until_event(*sent_queue_, sent_channel_, draw(2) == 0); break;
        // It looks now and then, and the helper has to see to all.
        default:
          scheduler.sleep_until(scheduler.now() + static_cast<Duration>(draw(kMillisecond)));
          (void)take(*sent_queue_);
      }
    }
    done_ = rounds_ == 0;
    // A process that comes later wants to be connected.
    scheduler.sleep_until(scheduler.now() +
                          (done_ ? 5 * kMillisecond : static_cast<Duration>(draw(kMillisecond))));
  }
  close();
}

// --- the one that receives

void Process::receive() {
  Scheduler& scheduler = parts_.scheduler;
  while (!leaving_) {
    switch (draw(4)) {
      case 0: poll_until(*received_queue_, scheduler.now() + 200 * kMicrosecond); break;
      case 1:
        scheduler.sleep_until(scheduler.now() + static_cast<Duration>(draw(2 * kMillisecond)));
        (void)take(*received_queue_);
        break;
      default: sleep_until_event(*received_queue_, received_channel_, false);
    }
  }
  receiver_ended_ = true;
}

}  // namespace verbena::host_sim
