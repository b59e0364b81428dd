// SPDX-License-Identifier: Apache-2.0
#include "common/side.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace verbena::bench {
namespace {

[[nodiscard]] std::shared_ptr<device::Device> open_device(link::LinkKind link) {
  device::EngineOptions options;
  options.link = link;
  auto device = device::Device::acquire(options);
  if (!device) {
    std::fprintf(stderr, "bench: %s\n", device.error().what.c_str());
    std::_Exit(1);
  }
  return *device;
}

void check(const transport::Completion& completion) {
  if (completion.status == transport::WcStatus::kSuccess) return;
  std::fprintf(stderr, "bench: completion: %s\n", to_string(completion.status));
  std::_Exit(1);
}

}  // namespace

Side::Side(const Control& control, const SideOptions& options)
    : control_(control), options_(options), context_(open_device(options.link)) {
  memory_ = static_cast<uint8_t*>(::mmap(nullptr, options.memory_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  pd_ = *context_.alloc_pd();
  if (options.with_channel) channel_ = std::make_unique<device::CompletionChannel>();
  cq_ = *context_.create_cq(options.depth * 2 * options.queue_pairs + 64, channel_.get());
  mr_ = *context_.reg_mr(
      *pd_, memory_, options.memory_bytes, reinterpret_cast<uint64_t>(memory_),
      memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic);
  device::QpRequest request;
  request.type = options.type;
  request.send_cq = request.recv_cq = cq_.get();
  request.send = {options.depth, 1, 64};
  request.max_recv_entries = options.depth;
  request.max_recv_sge = 1;
  for (uint32_t i = 0; i < options.queue_pairs; ++i) {
    qps_.push_back(*context_.create_qp(*pd_, request));
    index_of_.emplace(qps_.back()->qpn.value, i);
  }
  if (options.loss_ppm != 0) {
    random_ = std::make_unique<SeededRandom>(1);
    faults_ = std::make_unique<link::RandomFaults>(*random_,
                                                   link::FaultRates{.loss_ppm = options.loss_ppm});
    filter_ = std::make_unique<link::FaultFilter>(*faults_);
    context_.device().engine().set_taps(nullptr, filter_.get());
  }

  const uint64_t addr = reinterpret_cast<uint64_t>(memory_);
  control_.tell(&addr, sizeof addr);
  control_.tell(&mr_->rkey.value, 4);
  std::vector<uint32_t> own;
  for (const auto& qp : qps_) own.push_back(qp->qpn.value);
  control_.tell(own.data(), 4 * own.size());
  first_psn_ = context_.device().engine().draw_psn();
  const uint32_t psn = first_psn_.value();
  control_.tell(&psn, 4);
  control_.hear(&remote_.addr, sizeof remote_.addr);
  control_.hear(&remote_.rkey, 4);
  remote_.qpns.resize(qps_.size());
  control_.hear(remote_.qpns.data(), 4 * remote_.qpns.size());
  control_.hear(&remote_.first_psn, 4);

  wire::Gid loopback = wire::Gid::from_ipv4(127, 0, 0, 1);
  if (options.ipv6) {
    loopback = {};
    loopback.bytes[15] = 1;
  }
  const auto index = context_.device().gids().find(loopback);
  must(index ? 0 : ENODEV, "no loopback address");
  const auto path = context_.device().resolve({.destination = loopback, .source_index = *index});
  for (uint32_t i = 0; i < qps_.size(); ++i) connect(i, remote_.qpns[i], *path);
  control_.barrier();
}

Side::~Side() {
  control_.barrier();
  context_.device().engine().set_taps(nullptr, nullptr);
  for (const auto& qp : qps_) must(context_.destroy_qp(*qp), "destroy_qp");
  must(context_.dereg_mr(*mr_), "dereg_mr");
  must(context_.destroy_cq(*cq_), "destroy_cq");
  must(context_.dealloc_pd(*pd_), "dealloc_pd");
  ::munmap(memory_, options_.memory_bytes);
}

void Side::connect(uint32_t index, uint32_t remote_qpn, const transport::Path& path) {
  using namespace transport;  // NOLINT
  QpAttr attr;
  attr.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
  attr.port = 1;
  attr.path = path;
  attr.mtu = options_.mtu;
  attr.dest_qpn = Qpn(remote_qpn);
  attr.sq_psn = first_psn_;
  attr.rq_psn = wire::Psn(remote_.first_psn);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_count = 7;
  attr.rnr_retry = 7;
  const bool rc = options_.type == QpType::kRc;
  device::Qp& qp = *qps_[index];
  attr.state = QpState::kInit;
  must(context_.modify_qp(qp, attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess), "INIT");
  attr.state = QpState::kRtr;
  must(context_.modify_qp(qp, attr,
                          kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                              (rc ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0u)),
       "RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(
           qp, attr,
           kAttrState | kAttrSqPsn |
               (rc ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic : 0u)),
       "RTS");
}

void Side::post(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes, uint32_t flags,
                uint32_t imm) {
  post(qp, op, offset, bytes, flags, imm, offset);
}

void Side::post(uint32_t qp, transport::SendOp op, uint64_t offset, uint32_t bytes, uint32_t flags,
                uint32_t imm, uint64_t remote_offset) {
  const std::array<memory::Sge, 1> list{
      memory::Sge{reinterpret_cast<uint64_t>(memory_) + offset, bytes, mr_->lkey}};
  transport::SendRequest request;
  request.op = op;
  request.flags = flags;
  request.list = list;
  request.imm = imm;
  request.remote_addr = RemoteAddr(remote_.addr + remote_offset);
  request.rkey = RKey(remote_.rkey);
  post(qp, request);
}

void Side::post(uint32_t qp, const transport::SendRequest& request) {
  must(context_.post_send(*qps_[qp], request), "post_send");
}

std::unique_ptr<Side::Chain> Side::chain_of(transport::SendOp op, uint64_t offset, uint32_t bytes,
                                            uint32_t count) const {
  auto chain = std::make_unique<Chain>();
  chain->list = {memory::Sge{reinterpret_cast<uint64_t>(memory_) + offset, bytes, mr_->lkey}};
  transport::SendRequest request;
  request.op = op;
  request.list = chain->list;
  request.remote_addr = RemoteAddr(remote_.addr + offset);
  request.rkey = RKey(remote_.rkey);
  chain->requests.assign(count, request);
  chain->requests.back().flags = transport::kSignaled;
  return chain;
}

void Side::post(uint32_t qp, const Chain& chain) {
  int error = 0;
  (void)context_.post_send(*qps_[qp], chain.requests, error);
  must(error, "post_send");
}

void Side::post_recv(uint32_t qp, uint64_t offset, uint32_t bytes, uint32_t count) {
  const std::array<memory::Sge, 1> list{
      memory::Sge{reinterpret_cast<uint64_t>(memory_) + offset, bytes, mr_->lkey}};
  for (uint32_t i = 0; i < count; ++i) must(context_.post_recv(*qps_[qp], {0, list}), "post_recv");
}

void Side::wait(uint32_t count) {
  for (; count > 0; --count) (void)wait_for_one();
}

uint32_t Side::wait_for_one() {
  if (next_ == got_) {
    next_ = 0;
    while ((got_ = context_.poll_cq(*cq_, completions_)) == 0) {}
  }
  const transport::Completion& completion = completions_[next_++];
  check(completion);
  return index_of_.at(completion.qpn.value);
}

void Side::sleep_for(uint32_t count) {
  std::array<transport::Completion, 1> completion;
  while (count > 0) {
    if (context_.poll_cq(*cq_, completion) == 1) {
      check(completion[0]);
      --count;
      continue;
    }
    context_.req_notify_cq(*cq_, false);
    if (context_.poll_cq(*cq_, completion) == 1) {
      check(completion[0]);
      --count;
      continue;
    }
    device::CompletionQueue* which = nullptr;
    must(context_.get_cq_event(*channel_, which), "wait");
  }
}

}  // namespace verbena::bench
