// SPDX-License-Identifier: Apache-2.0
#include "sim/sacrifice.h"

#include <vector>

namespace verbena::sim {

using transport::Completion;
using transport::QpState;
using transport::QpType;
using transport::SendOp;
using transport::SendRequest;
using transport::WcStatus;

namespace {

[[nodiscard]] constexpr uint32_t one_of(WcStatus status) {
  return 1u << static_cast<uint8_t>(status);
}
constexpr uint32_t kWell = one_of(WcStatus::kSuccess);

// Whether the far end must be in the error state too.
[[nodiscard]] bool ends_both(Sin sin) {
  switch (sin) {
    case Sin::kBadLocalKey:
    case Sin::kBadBind:
    case Sin::kBadLocalInvalidate:
    case Sin::kNoReceive:
    case Sin::kDeadPeer:
    case Sin::kSourceGone:
    case Sin::kTargetGone:
    case Sin::kTooManyReads:       return false;
    default:                       return true;
  }
}

}  // namespace

Sacrifice::Sacrifice(World& world, uint32_t requester, uint32_t responder, uint32_t rounds)
    : world_(world), rounds_left_(rounds), next_sin_(static_cast<uint32_t>(world.draw(0, 1000))) {
  const std::array<uint32_t, 2> hosts = {requester, responder};
  for (uint32_t i : {0u, 1u}) {
    link::SimulatedNode& node = world.node(hosts[i]);
    transport::QpInit init;
    init.pd = world.host(hosts[i]).pd;
    init.send_cq = node.send_cq();
    init.recv_cq = node.recv_cq();
    init.send = {16, 2, 32};
    init.max_recv_entries = 8;
    init.max_recv_sge = 1;
    ends_[i] = {hosts[i], node.endpoint().create_qp(init).value()};
    world.own(hosts[i], ends_[i].qpn, *this, i);
    psn_[i] = wire::Psn(static_cast<uint32_t>(world.random().next()));
  }
  source_ = world.register_region(requester, kBytes, memory::kLocalWrite);
  target_ = world.register_region(
      responder, kBytes,
      memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic);
  read_only_ = world.register_region(responder, 64, memory::kRemoteRead);
  foreign_ = world.register_again(
      responder, target_.range,
      memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic,
      world.host(responder).other_pd);
}

void Sacrifice::finish(uint32_t more) {
  strict_ = true;
  rounds_left_ += more;
  if (!busy_) begin_round();
}

void Sacrifice::begin_round() {
  if (rounds_left_ == 0) return;
  --rounds_left_;
  busy_ = true;
  strict_round_ = strict_;
  failed_ = receive_failed_ = false;
  sin_ = static_cast<Sin>(next_sin_++ % static_cast<uint32_t>(Sin::kCount));
  world_.trace().mix(0x500, static_cast<uint64_t>(sin_));
  if (world_.trace().printing()) {
    world_.trace().say("sacrifice: sin %u on qp 0x%06x", static_cast<unsigned>(sin_),
                       ends_[0].qpn.value);
  }
  for (uint32_t i : {0u, 1u}) {
    Terms terms;
    terms.mtu = transport::Mtu::k512;
    terms.timeout = strict_round_ ? 12 : static_cast<uint8_t>(world_.draw(7, 10));
    terms.retry_count = strict_round_ ? 3 : static_cast<uint8_t>(world_.draw(0, 3));
    terms.rnr_retry = static_cast<uint8_t>(world_.draw(0, 2));
    terms.max_rd_atomic = sin_ == Sin::kTooManyReads ? 8 : 4;
    terms.max_dest_rd_atomic = sin_ == Sin::kTooManyReads ? 1 : 4;
    if (sin_ == Sin::kQpForbids && i == 1) terms.access = 0;
    terms.send_psn = psn_[i];
    terms.recv_psn = psn_[1 - i];
    if (sin_ == Sin::kDeadPeer && i == 1) continue;
    connect(world_, ends_[i], QpType::kRc, ends_[1 - i], terms);
  }
  post_receives();
  if (sin_ != Sin::kQpForbids && sin_ != Sin::kNoReceive && sin_ != Sin::kDeadPeer &&
      sin_ != Sin::kBadReceiveKey) {
    const uint64_t good = world_.draw(0, 3);
    for (uint64_t i = 0; i < good; ++i) post_good();
  }
  sin();
  aftermath();
  world_.dispatch();
}

void Sacrifice::post_receives() {
  receives_ = 0;
  if (sin_ == Sin::kNoReceive || sin_ == Sin::kDeadPeer) return;
  for (; receives_ < 6; ++receives_) {
    memory::Sge sge{target_.addr(target_.range.offset), 2048, target_.keys.lkey};
    if (sin_ == Sin::kBadReceiveKey) sge.lkey = LKey(sge.lkey.value ^ 0x0f);
    const auto posted =
        world_.endpoint(ends_[1].host).post_recv(ends_[1].qpn, {receives_, {&sge, 1}});
    SIM_REQUIRE(posted.has_value(), "posting a receive was refused");
  }
}

void Sacrifice::post(SendRequest& request, const memory::Sge& sge, uint32_t statuses) {
  request.wr_id = next_id_++;
  request.flags |= transport::kSignaled;
  const bool local = request.op == SendOp::kBindWindow || request.op == SendOp::kLocalInvalidate;
  if (!local) request.list = {&sge, 1};
  expected_.push_back({request.wr_id, statuses});
  ++posted_;
  const auto posted = world_.endpoint(ends_[0].host).post_send(ends_[0].qpn, request, world_.now());
  SIM_REQUIRE(posted.has_value(), "post_send refused: %s", transport::to_string(posted.error()));
}

void Sacrifice::post_good() {
  SendRequest request;
  request.op = world_.chance(50) ? SendOp::kWrite : SendOp::kSend;
  const auto length = static_cast<uint32_t>(world_.draw(0, 2000));
  request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
  request.rkey = target_.keys.rkey;
  post(request, {source_.addr(source_.range.offset), length, source_.keys.lkey}, kWell);
}

// Requests that are wrong on this side already. False when the sin is of another kind.
bool Sacrifice::sin_locally(SendRequest& request, memory::Sge& sge) {
  uint32_t outcome = one_of(WcStatus::kMwBind);
  switch (sin_) {
    case Sin::kBadLocalKey:
      request.op = world_.chance(50) ? SendOp::kSend : SendOp::kRead;
      sge.lkey = LKey(world_.chance(50) ? sge.lkey.value ^ 0x42 : 0);
      // A READ's is looked at when the answer comes: the peer must have one.
      request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
      request.rkey = target_.keys.rkey;
      outcome = one_of(WcStatus::kLocalProtection);
      break;
    case Sin::kSourceGone: {
      // The region goes while packets wait for the window.
      request.op = SendOp::kWrite;
      const Region gone = world_.register_again(ends_[0].host, source_.range, memory::kLocalWrite,
                                                world_.host(ends_[0].host).pd);
      sge = {gone.addr(gone.range.offset), kBytes, gone.keys.lkey};
      request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
      request.rkey = target_.keys.rkey;
      post(request, sge, kWell | one_of(WcStatus::kLocalProtection));
      const auto done = world_.node(ends_[0].host).memory().deregister_region(gone.keys.lkey);
      SIM_REQUIRE(done.has_value(), "deregistering was refused");
      return true;
    }
    case Sin::kBadBind:
      request.op = SendOp::kBindWindow;
      request.window = RKey(0x12345600);
      break;
    case Sin::kBadLocalInvalidate:
      request.op = SendOp::kLocalInvalidate;
      request.invalidate = RKey(source_.keys.lkey.value);
      break;
    default: return false;
  }
  post(request, sge, outcome);
  return true;
}

// Requests that the far end's state makes wrong.
bool Sacrifice::sin_remotely(SendRequest& request, memory::Sge& sge) {
  uint32_t outcome = 0;
  switch (sin_) {
    case Sin::kTooLong:
      request.op = SendOp::kSend;
      sge.length = static_cast<uint32_t>(world_.draw(2049, 8000));
      outcome = one_of(WcStatus::kRemoteInvalidRequest);
      break;
    case Sin::kBadReceiveKey:
      request.op = SendOp::kSend;
      outcome = one_of(WcStatus::kRemoteOperational);
      break;
    case Sin::kBadInvalidate:
      request.op = SendOp::kSendInvalidate;
      request.invalidate = world_.chance(50) ? target_.keys.rkey : RKey(0xabcdef01);
      outcome = one_of(WcStatus::kRemoteOperational);
      break;
    case Sin::kNoReceive:
      request.op = world_.chance(50) ? SendOp::kSend : SendOp::kWriteImm;
      request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
      request.rkey = target_.keys.rkey;
      outcome = one_of(WcStatus::kRnrRetryExceeded);
      break;
    case Sin::kDeadPeer:
      request.op = SendOp::kSend;
      outcome = one_of(WcStatus::kRetryExceeded);
      break;
    case Sin::kTargetGone: {
      request.op = world_.chance(50) ? SendOp::kWrite : SendOp::kRead;
      const Region gone =
          world_.register_again(ends_[1].host, target_.range,
                                memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead,
                                world_.host(ends_[1].host).pd);
      sge.length = kBytes;
      request.remote_addr = RemoteAddr(gone.addr(gone.range.offset));
      request.rkey = gone.keys.rkey;
      post(request, sge, kWell | one_of(WcStatus::kRemoteAccess));
      world_.after(static_cast<Duration>(world_.draw(0, 60'000)), [this, key = gone.keys.lkey] {
        const auto done = world_.node(ends_[1].host).memory().deregister_region(key);
        SIM_REQUIRE(done.has_value(), "deregistering was refused");
      });
      return true;
    }
    case Sin::kTooManyReads:
      request.op = SendOp::kRead;
      request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
      request.rkey = target_.keys.rkey;
      sge.length = 4096;
      for (int i = 0; i < 5; ++i)
        post(request, sge, kWell | one_of(WcStatus::kRemoteInvalidRequest));
      return true;
    default: return false;
  }
  post(request, sge, outcome);
  return true;
}

// Requests for memory that is not theirs.
void Sacrifice::sin_by_address(SendRequest& request, memory::Sge& sge) {
  constexpr std::array<SendOp, 6> kOps = {SendOp::kWrite,       SendOp::kWriteImm,
                                          SendOp::kRead,        SendOp::kFetchAdd,
                                          SendOp::kCompareSwap, SendOp::kAtomicWrite};
  request.op =
      kOps[world_.draw(0, sin_ == Sin::kMisaligned ? 2 : 5) + (sin_ == Sin::kMisaligned ? 3 : 0)];
  const bool word = request.op != SendOp::kWrite && request.op != SendOp::kWriteImm &&
                    request.op != SendOp::kRead;
  sge.length = word ? 8 : static_cast<uint32_t>(world_.draw(1, 4000));
  request.remote_addr = RemoteAddr(target_.addr(target_.range.offset));
  request.rkey = target_.keys.rkey;
  request.compare_add = 1;
  uint32_t outcome = one_of(WcStatus::kRemoteAccess);
  switch (sin_) {
    case Sin::kBadRkey:     request.rkey = RKey(request.rkey.value ^ 0x1001); break;
    case Sin::kOutOfBounds: {
      // Over either edge, or all the way round the address space.
      const uint64_t dice = world_.draw(0, 2);
      const uint64_t start = target_.addr(target_.range.offset);
      const uint64_t beyond = dice == 0   ? start - 8
                              : dice == 1 ? start + kBytes + 8 - (sge.length + 7) / 8 * 8
                                          : ~uint64_t{7};
      request.remote_addr = RemoteAddr(beyond);
      if (dice == 1 && sge.length % 8 != 0) sge.length += 8 - sge.length % 8;
      break;
    }
    case Sin::kNoPermission:
      if (request.op == SendOp::kRead) request.op = SendOp::kWrite;
      request.remote_addr = RemoteAddr(read_only_.addr(read_only_.range.offset));
      request.rkey = read_only_.keys.rkey;
      sge.length = word ? 8 : 64;
      break;
    case Sin::kWrongPd:   request.rkey = foreign_.keys.rkey; break;
    case Sin::kQpForbids: outcome = one_of(WcStatus::kRemoteInvalidRequest); break;
    case Sin::kMisaligned:
      request.remote_addr = RemoteAddr(request.remote_addr.value + world_.draw(1, 7));
      outcome = one_of(WcStatus::kRemoteInvalidRequest);
      break;
    default: violate("a sin without a sinner");
  }
  post(request, sge, outcome);
}

void Sacrifice::sin() {
  require_refusals();
  SendRequest request;
  memory::Sge sge{source_.addr(source_.range.offset), static_cast<uint32_t>(world_.draw(1, 1500)),
                  source_.keys.lkey};
  if (sin_locally(request, sge) || sin_remotely(request, sge)) return;
  sin_by_address(request, sge);
}

// What a call must refuse at once leaves no trace.
void Sacrifice::require_refusals() {
  transport::Endpoint& endpoint = world_.endpoint(ends_[0].host);
  const std::vector<memory::Sge> many(3,
                                      {source_.addr(source_.range.offset), 8, source_.keys.lkey});
  SendRequest request;
  const auto refused = [&] {
    return !endpoint.post_send(ends_[0].qpn, request, world_.now()).has_value();
  };
  request.list = many;
  SIM_REQUIRE(refused(), "more scatter/gather entries than the queue pair has were accepted");
  request.list = std::span(many).first(2);
  request.op = SendOp::kFetchAdd;
  SIM_REQUIRE(refused(), "an atomic of 16 bytes was accepted");
  request.op = SendOp::kFlush;
  SIM_REQUIRE(refused(), "FLUSH is not supported, but was accepted");
}

// What was posted behind the sin, while it is not yet known.
void Sacrifice::aftermath() {
  const uint64_t more = world_.draw(0, 2);
  for (uint64_t i = 0; i < more; ++i) {
    SendRequest request;
    request.op = SendOp::kSend;
    const auto length = static_cast<uint32_t>(world_.draw(0, 600));
    // When the sin is forgiven these go well; never the one without the other.
    const uint32_t both = kWell | one_of(WcStatus::kRnrRetryExceeded);
    post(request, {source_.addr(source_.range.offset), length, source_.keys.lkey}, both);
  }
}

void Sacrifice::on_send_done(uint32_t end, const Completion& completion) {
  SIM_REQUIRE(end == 0, "a request completed at an end that posted none");
  SIM_REQUIRE(!expected_.empty() && expected_.front().id == completion.wr_id,
              "requests completed out of order or twice");
  uint32_t statuses = expected_.front().statuses;
  expected_.pop_front();
  if (failed_) {
    statuses = one_of(WcStatus::kFlushed);
  } else if (!strict_round_) {
    statuses |= one_of(WcStatus::kRetryExceeded) | one_of(WcStatus::kRnrRetryExceeded);
  }
  SIM_REQUIRE((statuses & one_of(completion.status)) != 0, "sin %u, wr 0x%llx: it ended with: %s",
              static_cast<unsigned>(sin_), static_cast<unsigned long long>(completion.wr_id),
              transport::to_string(completion.status));
  if (completion.status != WcStatus::kSuccess) failed_ = true;
  if (expected_.empty()) {
    world_.after(static_cast<Duration>(world_.draw(100'000, 400'000)), [this] { end_round(); });
  }
}

void Sacrifice::on_receive_done(uint32_t end, const Completion& completion) {
  SIM_REQUIRE(end == 1 && completion.wr_id < receives_, "a receive completed that nobody posted");
  if (completion.status == WcStatus::kSuccess || completion.status == WcStatus::kFlushed) return;
  const WcStatus wanted =
      sin_ == Sin::kTooLong ? WcStatus::kLocalLength : WcStatus::kLocalProtection;
  const bool may =
      sin_ == Sin::kTooLong || sin_ == Sin::kBadReceiveKey || sin_ == Sin::kBadInvalidate;
  SIM_REQUIRE(may && completion.status == wanted && !receive_failed_,
              "sin %u: a receive ended with: %s", static_cast<unsigned>(sin_),
              transport::to_string(completion.status));
  receive_failed_ = true;
}

void Sacrifice::end_round() {
  if (strict_round_ && ends_both(sin_)) {
    for (const End& end : ends_) {
      SIM_REQUIRE(world_.endpoint(end.host).query_qp(end.qpn)->state == QpState::kErr,
                  "sin %u left a queue pair of host %u running", static_cast<unsigned>(sin_),
                  end.host);
    }
  }
  for (const End& end : ends_) move_to(world_, end, QpState::kReset);
  world_.dispatch();
  for (wire::Psn& psn : psn_) psn = wire::Psn(static_cast<uint32_t>(world_.random().next()));
  // How far the requests of a broken connection came nobody knows.
  world_.arena(ends_[0].host).accept(source_.range);
  world_.arena(ends_[1].host).accept(target_.range);
  busy_ = false;
  begin_round();
}

}  // namespace verbena::sim
