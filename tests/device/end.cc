// SPDX-License-Identifier: Apache-2.0
#include "end.h"

#include <cerrno>
#include <cstring>

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "budget.h"
#include "pattern.h"
#include "support/test_link.h"

namespace verbena::device::testing {
namespace {

using transport::QpState;
using transport::QpType;

// Outside the ephemeral range and away from the link's tests; nobody has it now.
[[nodiscard]] uint16_t free_port() {
  for (int i = 0;; ++i) {
    const auto port = static_cast<uint16_t>(26'000 + (::getpid() * 3 + i) % 6'000);
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return port;
    }
    if (i == 6'000) throw Broken("no free port");
  }
}

template <typename T>
[[nodiscard]] T take(Outcome<T> outcome, const char* what) {
  must(outcome ? 0 : outcome.error(), what);
  return std::move(*outcome);
}

}  // namespace

void must(int error, const std::string& what) {
  if (error != 0) throw Broken(what + ": " + std::strerror(error));
}

const EngineOptions& engine_options() {
  static const EngineOptions kOptions = [] {
    EngineOptions options;
    options.host.udp.port = free_port();
    options.host.group = "vdevice" + std::to_string(::getpid());
    options.host.slot_rest = 0;
    options.link = verbena::testing::test_link();
    return options;
  }();
  return kOptions;
}

std::shared_ptr<Device> open_device() {
  auto device = Device::acquire(engine_options());
  if (!device) throw Broken("no device: " + device.error().what);
  return *device;
}

wire::Gid loopback(bool ipv6) {
  if (!ipv6) return wire::Gid::from_ipv4(127, 0, 0, 1);
  wire::Gid gid;
  gid.bytes[15] = 1;
  return gid;
}

End::End(const PairOptions& setup, Control control, bool with_faults)
    : setup_(setup), control_(std::move(control)), context_(open_device()) {
  mapped_bytes_ = setup.memory_bytes + 2 * kGuardBytes;
  void* const at = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw Broken("no memory");
  memory_ = static_cast<uint8_t*>(at);
  pd_ = take(context_.alloc_pd(), "alloc_pd");
  if (setup.channel) channel_ = std::make_unique<CompletionChannel>();
  const uint32_t entries =
      setup.cq_entries != 0 ? setup.cq_entries : setup.depth * setup.queue_pairs;
  send_cq_ = take(context_.create_cq(entries, channel_.get()), "create_cq");
  recv_cq_ = take(context_.create_cq(entries, channel_.get()), "create_cq");
  send_cq_->cookie = send_cq_.get();
  recv_cq_->cookie = recv_cq_.get();
  mr_ = take(context_.reg_mr(*pd_, memory_, mapped_bytes_, reinterpret_cast<uint64_t>(memory_),
                             memory::kLocalWrite | memory::kMwBind | kAllRemote),
             "reg_mr");
  if (setup.shared_receives) {
    srq_ = take(context_.create_srq(*pd_, {.entries = setup.depth, .max_sge = 4, .cookie = &srq_}),
                "create_srq");
  }
  QpRequest request;
  request.type = setup.type;
  request.srq = srq_.get();
  request.send_cq = send_cq_.get();
  request.recv_cq = recv_cq_.get();
  request.send = {setup.depth, 4, 64};
  request.max_recv_entries = setup.depth;
  request.max_recv_sge = 4;
  request.signal_all = setup.signal_all;
  for (uint32_t i = 0; i < setup.queue_pairs; ++i) {
    qps_.push_back(take(context_.create_qp(*pd_, request), "create_qp"));
    qps_.back()->request.cookie = qps_.back().get();
  }
  const link::FaultRates& rates = setup.faults;
  if (with_faults && (rates.loss_ppm | rates.duplicate_ppm | rates.reorder_ppm | rates.delay_ppm |
                      rates.corrupt_ppm) != 0) {
    random_ = std::make_unique<SeededRandom>(setup.seed);
    faults_ = std::make_unique<link::RandomFaults>(*random_, rates);
    filter_ = std::make_unique<link::FaultFilter>(*faults_);
    engine().set_taps(nullptr, filter_.get());
  }

  control_.tell(Remote{reinterpret_cast<uint64_t>(memory_), mr_->rkey.value});
  std::vector<uint32_t> qpns;
  for (const auto& qp : qps_) qpns.push_back(qp->qpn.value);
  control_.tell_bytes(qpns.data(), 4 * qpns.size());
  remote_ = control_.hear<Remote>();
  remote_qpns_.resize(qps_.size());
  times_connected_.resize(qps_.size());
  control_.hear_bytes(remote_qpns_.data(), 4 * remote_qpns_.size());
  remote_.addr += kGuardBytes;

  const wire::Gid self = loopback(setup.ipv6);
  const auto index = context_.device().gids().find(self);
  must(index ? 0 : ENODEV, "no loopback address");
  const auto path = context_.device().resolve({.destination = self, .source_index = *index});
  must(path ? 0 : path.error(), "resolve");
  path_ = *path;
  for (uint32_t i = 0; i < qps_.size(); ++i) connect(i);
  barrier();
}

End::~End() {
  if (filter_) engine().set_taps(nullptr, nullptr);
  for (const auto& qp : qps_) (void)context_.destroy_qp(*qp);
  if (srq_) (void)context_.destroy_srq(*srq_);
  (void)context_.dereg_mr(*mr_);
  (void)context_.destroy_cq(*send_cq_);
  (void)context_.destroy_cq(*recv_cq_);
  (void)context_.dealloc_pd(*pd_);
  ::munmap(memory_, mapped_bytes_);
}

std::span<uint8_t> End::bytes(uint64_t offset, uint64_t n) {
  if (offset + n > setup_.memory_bytes) throw Broken("the test leaves its own memory");
  return {memory_ + kGuardBytes + offset, n};
}

memory::Sge End::sge(uint64_t offset, uint32_t n) {
  return {reinterpret_cast<uint64_t>(bytes(offset, n).data()), n, mr_->lkey};
}

int End::try_post(uint32_t qp, const Post& post) {
  const std::array<memory::Sge, 1> list{sge(post.local, post.bytes)};
  transport::SendRequest request;
  request.wr_id = post.wr_id;
  request.op = post.op;
  request.flags = post.flags;
  request.list = list;
  request.imm = post.imm;
  request.invalidate = post.invalidate;
  request.remote_addr = RemoteAddr(remote_addr(post.remote));
  request.rkey = remote_rkey();
  request.compare_add = post.compare_add;
  request.swap = post.swap;
  if (setup_.type == QpType::kUd) {
    request.path = path_;
    request.remote_qpn = remote_qpn(qp);
    request.remote_qkey = kQkey;
  }
  return context_.post_send(*qps_[qp], request);
}

void End::post(uint32_t qp, const Post& post) { must(try_post(qp, post), "post_send"); }

void End::post_recv(uint32_t qp, uint64_t offset, uint32_t n, uint64_t wr_id) {
  const std::array<memory::Sge, 1> list{sge(offset, n)};
  must(srq_ ? context_.post_srq_recv(*srq_, {wr_id, list})
            : context_.post_recv(*qps_[qp], {wr_id, list}),
       "post_recv");
}

transport::Completion End::next(CompletionQueue& cq) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::array<transport::Completion, 1> one;
  for (uint32_t round = 1; context_.poll_cq(cq, one) == 0; ++round) {
    if (round % 64 != 0) continue;
    // Two ends and two helpers share what cores there are.
    ::sched_yield();
    if (std::chrono::steady_clock::now() > end) {
      throw Broken(&cq == send_cq_.get() ? "no completion of a send" : "nothing received");
    }
  }
  return one[0];
}

transport::Completion End::good(CompletionQueue& cq) {
  const transport::Completion completion = next(cq);
  if (completion.status != transport::WcStatus::kSuccess) {
    throw Broken(std::string("completion: ") + to_string(completion.status));
  }
  return completion;
}

void End::good(CompletionQueue& cq, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) (void)good(cq);
}

uint64_t End::counter(transport::Counter which) {
  const Engine::Locked locked(engine());
  return locked.endpoint().counters()[which];
}

uint32_t End::overflow() {
  const Engine::Locked locked(engine());
  return engine().link().receive_counters().overflow;
}

void End::order() {
  if (!kThreadSanitizer) return;
  const Engine::Locked locked(engine());
}

QpState End::state(uint32_t qp) {
  const auto attr = context_.query_qp(*qps_[qp]);
  must(attr ? 0 : attr.error(), "query_qp");
  return attr->state;
}

void End::to_error(uint32_t qp) {
  transport::QpAttr attr;
  attr.state = QpState::kErr;
  must(context_.modify_qp(*qps_[qp], attr, transport::kAttrState), "to error");
}

bool End::readable(int fd, std::chrono::milliseconds patience) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(patience.count())) == 1;
}

AsyncEvent End::next_event() {
  if (!readable(context_.events().fd(), kPatience)) throw Broken("no asynchronous event");
  AsyncEvent event;
  must(context_.events().wait(event), "waiting for an event");
  return event;
}

void End::connect_datagrams(Qp& qp) {
  transport::QpAttr attr;
  attr.qkey = kQkey;
  attr.port = 1;
  attr.sq_psn = wire::Psn(setup_.first_psn);
  attr.state = QpState::kInit;
  must(context_.modify_qp(qp, attr,
                          transport::kAttrState | transport::kAttrPkeyIndex | transport::kAttrPort |
                              transport::kAttrQkey),
       "INIT");
  attr.state = QpState::kRtr;
  must(context_.modify_qp(qp, attr, transport::kAttrState), "RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(qp, attr, transport::kAttrState | transport::kAttrSqPsn), "RTS");
}

void End::connect(uint32_t index) {
  constexpr uint32_t kPsnStep = 0x10000;
  Qp& qp = *qps_[index];
  if (setup_.type == QpType::kUd) return connect_datagrams(qp);
  transport::QpAttr attr;
  attr.access = kAllRemote;
  attr.port = 1;
  attr.path = path_;
  attr.mtu = setup_.mtu;
  attr.dest_qpn = remote_qpn(index);
  // Other PSNs each time: copies of the last connection's packets may still be on the way.
  attr.rq_psn = attr.sq_psn = wire::Psn(setup_.first_psn + times_connected_[index]++ * kPsnStep);
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 1;
  attr.timeout = setup_.timeout;
  attr.retry_count = setup_.retry_count;
  attr.rnr_retry = setup_.rnr_retry;
  const bool rc = setup_.type == QpType::kRc;
  attr.state = QpState::kReset;
  must(context_.modify_qp(qp, attr, transport::kAttrState), "RESET");
  attr.state = QpState::kInit;
  must(context_.modify_qp(qp, attr,
                          transport::kAttrState | transport::kAttrPkeyIndex | transport::kAttrPort |
                              transport::kAttrAccess),
       "INIT");
  attr.state = QpState::kRtr;
  must(context_.modify_qp(
           qp, attr,
           transport::kAttrState | transport::kAttrPath | transport::kAttrMtu |
               transport::kAttrDestQpn | transport::kAttrRqPsn |
               (rc ? transport::kAttrMaxDestRdAtomic | transport::kAttrMinRnrTimer : 0u)),
       "RTR");
  attr.state = QpState::kRts;
  must(context_.modify_qp(qp, attr,
                          transport::kAttrState | transport::kAttrSqPsn |
                              (rc ? transport::kAttrTimeout | transport::kAttrRetryCount |
                                        transport::kAttrRnrRetry | transport::kAttrMaxRdAtomic
                                  : 0u)),
       "RTS");
}

}  // namespace verbena::device::testing
