// SPDX-License-Identifier: Apache-2.0
#include "processes/party.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include <unistd.h>

#include "processes/crowd.h"

namespace verbena::processes {
namespace {

using transport::SendOp;

void must(int error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

[[nodiscard]] std::shared_ptr<device::Device> open(const PartyOptions& options) {
  auto device = device::Device::acquire(options.engine);
  if (!device) throw std::runtime_error(device.error().what);
  return *device;
}

[[nodiscard]] transport::Path path_to(device::Context& context, const wire::Gid& from,
                                      const wire::Gid& to) {
  const auto index = context.device().gids().find(from);
  if (!index) throw std::runtime_error("the address is not in the GID table");
  const auto path = context.device().resolve({.destination = to, .source_index = *index});
  if (!path) throw std::runtime_error(std::string("no path: ") + std::strerror(path.error()));
  return *path;
}

}  // namespace

Party::Party(const PartyOptions& options)
    : options_(options), context_(open(options)), memory_(options.bytes) {
  pd_ = *context_.alloc_pd();
  cq_ = *context_.create_cq(4096, options.sleeps ? &channel_ : nullptr);
  cq_->cookie = cq_.get();
  mr_ = *context_.reg_mr(*pd_, memory_.data(), memory_.size(),
                         reinterpret_cast<uint64_t>(memory_.data()),
                         memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead);
  device::QpRequest request;
  request.type = options.type;
  request.send_cq = request.recv_cq = cq_.get();
  request.send = {512, 1, 0};
  request.max_recv_entries = 64;
  request.max_recv_sge = 1;
  request.signal_all = true;
  for (uint32_t i = 0; i < options.qps; ++i) {
    qps_.push_back(*context_.create_qp(*pd_, request));
    to_init(*qps_.back());
  }
}

Party::~Party() {
  for (const auto& qp : qps_) (void)context_.destroy_qp(*qp);
  (void)context_.dereg_mr(*mr_);
  (void)context_.destroy_cq(*cq_);
  (void)context_.dealloc_pd(*pd_);
}

void Party::to_init(device::Qp& qp) {
  using namespace transport;  // NOLINT
  const bool datagrams = options_.type == QpType::kUd;
  QpAttr attr;
  attr.port = 1;
  attr.qkey = kQkey;
  attr.access = memory::kRemoteWrite | memory::kRemoteRead;
  attr.state = QpState::kInit;
  must(context_.modify_qp(
           qp, attr,
           kAttrState | kAttrPkeyIndex | kAttrPort | (datagrams ? kAttrQkey : kAttrAccess)),
       "INIT");
  if (!datagrams) return;
  attr.state = QpState::kRtr;
  must(context_.modify_qp(qp, attr, kAttrState), "RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(qp, attr, kAttrState | kAttrSqPsn), "RTS");
}

Card Party::card() const {
  Card card{.memory = reinterpret_cast<uint64_t>(memory_.data()), .rkey = mr_->rkey.value};
  for (uint32_t i = 0; i < qps_.size(); ++i) card.qpns[i] = qps_[i]->qpn.value;
  return card;
}

void Party::connect(const Card& peer, const wire::Gid& address) {
  using namespace transport;  // NOLINT
  peer_ = peer;
  QpAttr attr;
  attr.path = path_to(context_, options_.address, address);
  attr.mtu = options_.mtu;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.timeout = options_.timeout;
  attr.retry_count = options_.retries;
  attr.rnr_retry = 7;
  for (uint32_t i = 0; i < qps_.size(); ++i) {
    attr.dest_qpn = Qpn(peer.qpns[i]);
    attr.state = QpState::kRtr;
    must(context_.modify_qp(*qps_[i], attr,
                            kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                                kAttrMaxDestRdAtomic | kAttrMinRnrTimer),
         "RTR");
    attr.state = QpState::kRts;
    must(context_.modify_qp(*qps_[i], attr,
                            kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCount |
                                kAttrRnrRetry | kAttrMaxRdAtomic),
         "RTS");
  }
}

void Party::post(uint32_t qp, SendOp op, uint32_t offset, uint32_t bytes) {
  const std::array<memory::Sge, 1> list{
      memory::Sge{reinterpret_cast<uint64_t>(memory_.data()) + offset, bytes, mr_->lkey}};
  transport::SendRequest request;
  request.wr_id = qp;
  request.op = op;
  request.list = list;
  request.remote_addr = RemoteAddr(peer_.memory + options_.bytes / 2 + offset);
  request.rkey = RKey(peer_.rkey);
  must(context_.post_send(*qps_[qp], request), "post_send");
}

void Party::post_datagram(const Card& peer, const wire::Gid& address, uint32_t bytes) {
  const std::array<memory::Sge, 1> list{
      memory::Sge{reinterpret_cast<uint64_t>(memory_.data()), bytes, mr_->lkey}};
  transport::SendRequest request;
  request.op = SendOp::kSend;
  request.list = list;
  request.path = path_to(context_, options_.address, address);
  request.remote_qpn = Qpn(peer.qpns[0]);
  request.remote_qkey = kQkey;
  must(context_.post_send(*qps_[0], request), "post_send");
}

void Party::post_recv(uint32_t qp, uint32_t offset, uint32_t bytes) {
  const std::array<memory::Sge, 1> list{
      memory::Sge{reinterpret_cast<uint64_t>(memory_.data()) + offset, bytes, mr_->lkey}};
  must(context_.post_recv(*qps_[qp], {qp, list}), "post_recv");
}

void Party::attach(const wire::Gid& group) {
  must(context_.attach_group(*qps_[0], group), "attach");
}

void Party::detach(const wire::Gid& group) {
  must(context_.detach_group(*qps_[0], group), "detach");
}

std::optional<transport::Completion> Party::next() { return next(kPatience); }

void Party::sleep() {
  device::CompletionQueue* woken = nullptr;
  must(context_.get_cq_event(channel_, woken), "get_cq_event");
}

std::optional<transport::Completion> Party::next(Duration patience) {
  std::array<transport::Completion, 1> completion;
  while (options_.sleeps && context_.poll_cq(*cq_, completion) == 0) {
    context_.req_notify_cq(*cq_, false);
    if (context_.poll_cq(*cq_, completion) == 1) return completion[0];
    sleep();
  }
  if (options_.sleeps) return completion[0];
  if (!wait_until([&] { return context_.poll_cq(*cq_, completion) == 1; }, patience)) {
    return std::nullopt;
  }
  return completion[0];
}

bool Party::echo(uint32_t qp, uint32_t bytes, uint8_t pattern) {
  std::fill_n(memory_.data(), bytes, pattern);
  post(qp, SendOp::kWrite, 0, bytes);
  const auto wrote = next();
  std::fill_n(memory_.data(), bytes, static_cast<uint8_t>(~pattern));
  post(qp, SendOp::kRead, 0, bytes);
  const auto read = next();
  for (const auto& done : {wrote, read}) {
    if (!done || done->status != transport::WcStatus::kSuccess) {
      std::fprintf(stderr, "echo: %s\n", done ? to_string(done->status) : "no completion");
    }
  }
  return wrote && wrote->status == transport::WcStatus::kSuccess && read &&
         read->status == transport::WcStatus::kSuccess &&
         std::all_of(memory_.data(), memory_.data() + bytes,
                     [pattern](uint8_t byte) { return byte == pattern; });
}

}  // namespace verbena::processes
