// SPDX-License-Identifier: Apache-2.0
#include "demo/end.h"

#include <cstring>

#include <sched.h>

namespace verbena::demo {
namespace {

using transport::QpState;
using transport::QpType;

constexpr std::array kServices{QpType::kRc, QpType::kUc, QpType::kUd};
constexpr uint32_t kRemoteAccess =
    memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

void must(int error, const char* what) {
  if (error != 0) throw Problem(std::string(what) + ": " + std::strerror(error));
}

template <typename T>
[[nodiscard]] T take(device::Outcome<T> outcome, const char* what) {
  must(outcome ? 0 : outcome.error(), what);
  return std::move(*outcome);
}

[[nodiscard]] std::shared_ptr<device::Device> open_device(const device::EngineOptions& options) {
  auto device = device::Device::acquire(options);
  if (!device) throw Problem("the device cannot start: " + device.error().what);
  return *device;
}

}  // namespace

End::End(const EndOptions& options, Line& line)
    : line_(line), context_(open_device(options.engine)), memory_(size_t{kSlots} * kSlotBytes) {
  find_path(options.ipv6);
  create();
}

void End::join() {
  line_.tell(own_);
  other_ = line_.hear<Names>();
  connect(QpType::kRc);
  connect(QpType::kUc);
  start_datagrams();
  line_.meet();
}

End::~End() {
  for (const auto& qp : qps_) {
    if (qp) (void)context_.destroy_qp(*qp);
  }
  if (mr_) (void)context_.dereg_mr(*mr_);
  if (send_cq_) (void)context_.destroy_cq(*send_cq_);
  if (recv_cq_) (void)context_.destroy_cq(*recv_cq_);
  if (pd_) (void)context_.dealloc_pd(*pd_);
}

void End::find_path(bool ipv6) {
  wire::Gid loopback = wire::Gid::from_ipv4(127, 0, 0, 1);
  if (ipv6) {
    loopback = {};
    loopback.bytes[15] = 1;
  }
  const auto index = device().gids().find(loopback);
  if (!index) {
    throw Problem(ipv6 ? "this host has no address ::1; try without --ipv6"
                       : "this host has no address 127.0.0.1; bring it up: ip link set lo up");
  }
  path_ = take(device().resolve({.destination = loopback, .source_index = *index}), "no path");
}

void End::create() {
  pd_ = take(context_.alloc_pd(), "alloc_pd");
  send_cq_ = take(context_.create_cq(4 * kQueueEntries, nullptr), "create_cq");
  recv_cq_ = take(context_.create_cq(4 * kQueueEntries, nullptr), "create_cq");
  mr_ = take(context_.reg_mr(*pd_, memory_.data(), memory_.size(),
                             reinterpret_cast<uint64_t>(memory_.data()),
                             memory::kLocalWrite | memory::kMwBind | kRemoteAccess),
             "reg_mr");
  own_.memory = reinterpret_cast<uint64_t>(memory_.data());
  own_.rkey = mr_->rkey.value;
  for (size_t i = 0; i < kServices.size(); ++i) {
    device::QpRequest wanted;
    wanted.type = kServices[i];
    wanted.send_cq = send_cq_.get();
    wanted.recv_cq = recv_cq_.get();
    wanted.send = {kQueueEntries, 1, 0};
    wanted.max_recv_entries = kQueueEntries;
    wanted.max_recv_sge = 1;
    qps_[i] = take(context_.create_qp(*pd_, wanted), "create_qp");
    own_.qpns[i] = qps_[i]->qpn.value;
    own_.psns[i] = device().engine().draw_psn().value();
  }
}

size_t End::index_of(QpType service) {
  return service == QpType::kRc ? 0 : service == QpType::kUc ? 1 : 2;
}

void End::connect(QpType service) {
  using namespace transport;  // NOLINT
  const size_t i = index_of(service);
  const bool rc = service == QpType::kRc;
  QpAttr attr;
  attr.access = kRemoteAccess;
  attr.port = 1;
  attr.path = path_;
  attr.mtu = Mtu::k4096;
  static_assert(mtu_bytes(Mtu::k4096) == kMtuBytes);
  attr.dest_qpn = Qpn(other_.qpns[i]);
  attr.sq_psn = wire::Psn(own_.psns[i]);
  attr.rq_psn = wire::Psn(other_.psns[i]);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_count = 7;
  attr.rnr_retry = 7;
  attr.state = QpState::kInit;
  must(context_.modify_qp(*qps_[i], attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess),
       "to INIT");
  attr.state = QpState::kRtr;
  must(context_.modify_qp(*qps_[i], attr,
                          kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                              (rc ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0u)),
       "to RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(
           *qps_[i], attr,
           kAttrState | kAttrSqPsn |
               (rc ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic : 0u)),
       "to RTS");
}

void End::start_datagrams() {
  using namespace transport;  // NOLINT
  const size_t i = index_of(QpType::kUd);
  QpAttr attr;
  attr.qkey = kQkey;
  attr.port = 1;
  attr.sq_psn = wire::Psn(own_.psns[i]);
  attr.state = QpState::kInit;
  must(context_.modify_qp(*qps_[i], attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrQkey),
       "to INIT");
  attr.state = QpState::kRtr;
  must(context_.modify_qp(*qps_[i], attr, kAttrState), "to RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(*qps_[i], attr, kAttrState | kAttrSqPsn), "to RTS");
}

memory::Sge End::piece(uint32_t slot, uint32_t bytes) { return {here(slot), bytes, mr_->lkey}; }

transport::SendRequest End::request(const Operation& operation, uint32_t remote_slot,
                                    std::span<const memory::Sge> list) const {
  transport::SendRequest request;
  request.op = operation.op;
  request.list = list;
  request.remote_addr = RemoteAddr(there(remote_slot));
  request.rkey = RKey(other_.rkey);
  if (operation.service == QpType::kUd) {
    request.path = path_;
    request.remote_qpn = Qpn(other_.qpns[index_of(QpType::kUd)]);
    request.remote_qkey = kQkey;
  }
  return request;
}

void End::post(QpType service, std::span<const transport::SendRequest> requests) {
  int error = 0;
  (void)context_.post_send(*qps_[index_of(service)], requests, error);
  must(error, "post_send");
}

void End::post_receive(QpType service, uint32_t slot, uint32_t bytes, uint64_t id) {
  const std::array list{piece(slot, bytes)};
  must(context_.post_recv(*qps_[index_of(service)], {id, list}), "post_recv");
}

std::span<const transport::Completion> End::poll(device::CompletionQueue& cq) {
  const auto got = std::span(completions_).first(context_.poll_cq(cq, completions_));
  for (const transport::Completion& completion : got) {
    if (completion.status != transport::WcStatus::kSuccess) {
      line_.check_other();
      throw Problem(std::string("an operation failed: ") + to_string(completion.status));
    }
  }
  return got;
}

void End::wait_sent(uint64_t count) {
  Watch watch(line_, "an operation does not complete");
  while (count > 0) {
    const size_t got = poll_sent().size();
    count -= got;
    if (got == 0) watch.again();
  }
}

std::vector<transport::Completion> End::wait_received(uint64_t count) {
  Watch watch(line_, "a message does not arrive");
  std::vector<transport::Completion> all;
  while (all.size() < count) {
    const auto got = poll_received();
    all.insert(all.end(), got.begin(), got.end());
    if (got.empty()) watch.again();
  }
  return all;
}

std::vector<RKey> End::bind_windows(uint32_t count) {
  constexpr uint32_t kTag = 0x5a;
  std::vector<RKey> keys;
  std::vector<transport::SendRequest> requests;
  for (uint32_t i = 0; i < count; ++i) {
    const RKey window = take(context_.alloc_mw(*pd_, memory::WindowType::kType2), "alloc_mw");
    transport::SendRequest& request = requests.emplace_back();
    request.op = transport::SendOp::kBindWindow;
    request.flags = transport::kSignaled;
    request.window = window;
    request.bind = {.region = mr_->lkey,
                    .addr = reinterpret_cast<uint64_t>(memory_.data()),
                    .length = memory_.size(),
                    .access = memory::kRemoteWrite,
                    .tag = kTag};
    keys.emplace_back((window.value & ~0xffu) | kTag);
  }
  post(QpType::kRc, requests);
  wait_sent(count);
  return keys;
}

void End::free_windows(std::span<const RKey> windows) {
  for (const RKey window : windows) must(context_.dealloc_mw(window), "dealloc_mw");
}

void Watch::again() {
  if (++rounds_ % 64 != 0) return;
  // Two ends and two helpers share what cores there are.
  ::sched_yield();
  if (rounds_ % 4096 != 0 && rounds_ != 64) return;
  line_.check_other();
  const auto now = std::chrono::steady_clock::now();
  if (rounds_ == 64) since_ = now;
  if (now - since_ > kPatience) throw Problem(what_);
}

}  // namespace verbena::demo
