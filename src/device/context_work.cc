// SPDX-License-Identifier: Apache-2.0
// Context: queue pairs and shared receive queues, and the work posted to them.
#include <cerrno>

#include "base/check.h"
#include "device/device.h"
#include "device/group_address.h"

namespace verbena::device {
namespace {

[[nodiscard]] int errno_of(transport::Error error) {
  switch (error) {
    case transport::Error::kQueueFull:
    case transport::Error::kTooMany:     return ENOMEM;
    case transport::Error::kBusy:        return EBUSY;
    case transport::Error::kUnsupported: return EOPNOTSUPP;
    default:                             return EINVAL;
  }
}

template <typename T>
[[nodiscard]] int errno_of(const Result<T, transport::Error>& result) {
  return result ? 0 : errno_of(result.error());
}

// What a caller hears: how many were posted, and why not the next.
[[nodiscard]] size_t tell(const Engine::Posted& posted, int& error) {
  error = posted.refused ? errno_of(*posted.refused) : 0;
  return posted.count;
}

}  // namespace

Outcome<std::unique_ptr<Srq>> Context::create_srq(Pd& pd, const SrqRequest& request) {
  const Engine::Quiet locked(device_->engine());
  const auto queue = locked.endpoint().create_srq(
      pd.id, request.entries, request.max_sge,
      request.xrcd != nullptr ? request.xrcd->id : XrcdId(), request.cq);
  if (!queue) return fail(errno_of(queue.error()));
  auto srq =
      std::make_unique<Srq>(Srq{this, &pd, *queue, request.cookie, request.xrcd, request.cq});
  device_->srqs_.emplace((*queue)->id.value, srq.get());
  ++pd.users;
  if (request.xrcd != nullptr) ++request.xrcd->users;
  if (request.cq != nullptr) ++request.cq->users;
  return srq;
}

int Context::arm_srq(Srq& srq, uint32_t limit) {
  const Engine::Locked locked(device_->engine());
  return errno_of(locked.endpoint().arm_srq_limit(srq.queue->id, limit));
}

int Context::destroy_srq(Srq& srq) {
  const Engine::Locked locked(device_->engine());
  const SrqId id = srq.queue->id;
  auto destroyed = locked.endpoint().destroy_srq(id);
  if (!destroyed) return errno_of(destroyed.error());
  srq.destroyed = std::move(*destroyed);
  device_->srqs_.erase(id.value);
  release(srq);
  srq.events = events_.forget(srq.cookie);
  return 0;
}

int Context::post_srq_recv(Srq& srq, const transport::RecvRequest& request) {
  int error = 0;
  (void)post_srq_recv(srq, {&request, 1}, error);
  return error;
}

size_t Context::post_srq_recv(Srq& srq, std::span<const transport::RecvRequest> requests,
                              int& error) {
  return tell(device_->engine().post_receives(*srq.queue, requests), error);
}

Outcome<std::shared_ptr<Xrcd>> Context::open_xrcd(const std::optional<FileId>& file, bool create,
                                                  bool exclusive) {
  const Engine::Quiet locked(device_->engine());
  auto& known = device_->xrcds_;
  std::erase_if(known, [](const std::weak_ptr<Xrcd>& xrcd) { return xrcd.expired(); });
  for (const std::weak_ptr<Xrcd>& each : known) {
    auto xrcd = each.lock();
    if (!file || xrcd == nullptr || xrcd->file != file) continue;
    if (create && exclusive) return fail(EEXIST);
    return xrcd;
  }
  if (!create) return fail(file ? ENOENT : EINVAL);
  auto xrcd = std::make_shared<Xrcd>();
  xrcd->id = XrcdId(++device_->xrcds_made_);
  xrcd->file = file;
  if (file) known.push_back(xrcd);
  return xrcd;
}

int Context::close_xrcd(std::shared_ptr<Xrcd>& xrcd) {
  const Engine::Quiet locked(device_->engine());
  if (xrcd->users != 0 && xrcd.use_count() == 1) return EBUSY;
  xrcd.reset();
  return 0;
}

Outcome<std::unique_ptr<Qp>> Context::create_qp(Pd* pd, const QpRequest& request) {
  if ((pd == nullptr) != (request.type == transport::QpType::kXrcRecv)) return fail(EINVAL);
  const transport::QpInit init{.type = request.type,
                               .pd = pd != nullptr ? pd->id : PdId(),
                               .send_cq = request.send_cq,
                               .recv_cq = request.recv_cq,
                               .srq = request.srq != nullptr ? request.srq->queue : nullptr,
                               .xrcd = request.xrcd != nullptr ? request.xrcd->id : XrcdId(),
                               .send = request.send,
                               .max_recv_entries = request.max_recv_entries,
                               .max_recv_sge = request.max_recv_sge,
                               .signal_all = request.signal_all,
                               .signature_pipelining = request.signature_pipelining,
                               .block_own_multicast = request.block_own_multicast};
  auto queues = device_->engine().make_queues(init);
  if (!queues) return fail(errno_of(queues.error()));
  const Engine::Quiet locked(device_->engine());
  const auto qpn = locked.endpoint().create_qp(init, device_->draw_qpn(), *queues);
  if (!qpn) return fail(errno_of(qpn.error()));
  auto qp = std::make_unique<Qp>(Qp{this, pd, *qpn, locked.endpoint().queue_pair(*qpn), request});
  device_->qps_.emplace(qpn->value, qp.get());
  if (pd != nullptr) ++pd->users;
  if (request.xrcd != nullptr) ++request.xrcd->users;
  for (CompletionQueue* const cq : qp->cqs()) ++cq->users;
  return qp;
}

// The number's low bits are random: a taken one is drawn again. A third of the numbers are free at
// the least.
Qpn Device::draw_qpn() {
  const auto is_taken = [this](Qpn qpn) VERBENA_REQUIRES(engine().lock()) {
    return qps_.contains(qpn.value) || reserved_qpns_.contains(qpn.value);
  };
  Qpn qpn = engine().draw_qpn();
  for (int i = 0; i < 64 && is_taken(qpn); ++i) qpn = engine().draw_qpn();
  return qpn;
}

Outcome<Qpn> Context::reserve_qpn() {
  constexpr size_t kMost = 8192;
  const Engine::Quiet locked(device_->engine());
  if (device_->reserved_qpns_.size() >= kMost) return fail(ENOMEM);
  const Qpn qpn = device_->draw_qpn();
  if (device_->qps_.contains(qpn.value)) return fail(ENOMEM);
  if (!device_->reserved_qpns_.emplace(qpn.value, this).second) return fail(ENOMEM);
  return qpn;
}

int Context::release_qpn(Qpn qpn) {
  const Engine::Quiet locked(device_->engine());
  const auto place = device_->reserved_qpns_.find(qpn.value);
  if (place == device_->reserved_qpns_.end() || place->second != this) return EINVAL;
  device_->reserved_qpns_.erase(place);
  return 0;
}

int Context::modify_qp(Qp& qp, const transport::QpAttr& attr, uint32_t mask) {
  constexpr uint32_t kBoth = transport::kAttrPath | transport::kAttrMtu;
  // Or each packet would be refused by the kernel, and the program told that retries ran out.
  Engine& engine = device_->engine();
  if ((mask & kBoth) == kBoth && attr.mtu > attr.path.largest_mtu) {
    engine.tell_refused_mtu(attr.mtu, attr.path.largest_mtu);
    return EINVAL;
  }
  const Engine::Locked locked(engine);
  const int error = errno_of(locked.endpoint().modify_qp(qp.qpn, attr, mask, locked.now()));
  if (error != 0) return error;
  if ((mask & transport::kAttrPath) != 0) engine.expect_from(attr.path.destination);
  if ((mask & transport::kAttrState) != 0 && attr.state == transport::QpState::kReset) {
    for (CompletionQueue* const cq : qp.cqs()) cq->purge(qp.qpn);
  }
  if (qp.request.type == transport::QpType::kUd) engine.expect_from_anybody();
  return 0;
}

Outcome<transport::QpAttr> Context::query_qp(const Qp& qp) {
  const Engine::Quiet locked(device_->engine());
  const auto attr = locked.endpoint().query_qp(qp.qpn);
  if (!attr) return fail(errno_of(attr.error()));
  return *attr;
}

int Context::destroy_qp(Qp& qp) {
  const Engine::Locked locked(device_->engine());
  auto destroyed = locked.endpoint().destroy_qp(qp.qpn);
  if (!destroyed) return errno_of(destroyed.error());
  qp.destroyed = std::move(*destroyed);
  device_->qps_.erase(qp.qpn.value);
  release(qp);
  qp.events = events_.forget(qp.request.cookie);
  return 0;
}

int Context::attach_counter(Qp& qp, transport::OperationCounter& counter, uint32_t operations) {
  const Engine::Quiet locked(device_->engine());
  return errno_of(locked.endpoint().attach_counter(qp.qpn, counter, operations));
}

int Context::retire_counter(transport::OperationCounter& counter) {
  const Engine::Quiet locked(device_->engine());
  if (counter.users != 0) return EBUSY;
  counter.retired = true;
  return 0;
}

int Context::attach_group(Qp& qp, const wire::Gid& group) {
  const Engine::Quiet locked(device_->engine());
  int error = 0;
  bool heard = false;  // enough if it is at one of them: there may be no IPv6
  for (const wire::Gid& address : addresses_of_group(group)) {
    const int failed = attach_address(locked.endpoint(), qp.qpn, address);
    heard = heard || failed == 0;
    if (failed != 0) error = failed;
  }
  return heard ? 0 : error;
}

int Context::attach_address(transport::Endpoint& endpoint, Qpn qpn, const wire::Gid& address) {
  if (endpoint.is_attached(qpn, address)) return 0;
  if (const int error = errno_of(endpoint.attach(qpn, address)); error != 0) return error;
  const int error = device_->engine().join_group(address);
  if (error != 0) VERBENA_CHECK(endpoint.detach(qpn, address));
  return error;
}

int Context::detach_group(Qp& qp, const wire::Gid& group) {
  Engine& engine = device_->engine();
  const Engine::Quiet locked(engine);
  int error = EINVAL;
  for (const wire::Gid& address : addresses_of_group(group)) {
    if (!locked.endpoint().detach(qp.qpn, address)) continue;
    engine.leave_group(address);
    error = 0;
  }
  return error;
}

void Context::leave_groups(transport::Endpoint& endpoint, Qpn qpn) {
  for (const wire::Gid& group : endpoint.groups_of(qpn)) {
    VERBENA_CHECK(endpoint.detach(qpn, group));
    device_->engine().leave_group(group);
  }
}

void Context::release(Qp& qp) {
  for (CompletionQueue* const cq : qp.cqs()) {
    cq->purge(qp.qpn);
    --cq->users;
  }
  if (qp.pd != nullptr) --qp.pd->users;
  if (qp.request.xrcd != nullptr) --qp.request.xrcd->users;
}

void Context::release(Srq& srq) {
  --srq.pd->users;
  if (srq.xrcd != nullptr) --srq.xrcd->users;
  if (srq.cq != nullptr) --srq.cq->users;
}

int Context::post_send(Qp& qp, const transport::SendRequest& request) {
  int error = 0;
  (void)post_send(qp, {&request, 1}, error);
  return error;
}

size_t Context::post_send(Qp& qp, std::span<const transport::SendRequest> requests, int& error) {
  return tell(device_->engine().post_sends(*qp.queue, requests, Engine::Chain::kUpToRefused),
              error);
}

int Context::post_send_all(Qp& qp, std::span<const transport::SendRequest> requests) {
  int error = 0;
  (void)tell(device_->engine().post_sends(*qp.queue, requests, Engine::Chain::kWhole), error);
  return error;
}

Outcome<uint32_t> Context::cancel_sends(Qp& qp, uint64_t wr_id) {
  const Engine::Quiet locked(device_->engine());
  const auto cancelled = locked.endpoint().cancel_sends(qp.qpn, wr_id);
  if (!cancelled) return fail(errno_of(cancelled.error()));
  return *cancelled;
}

int Context::post_recv(Qp& qp, const transport::RecvRequest& request) {
  int error = 0;
  (void)post_recv(qp, {&request, 1}, error);
  return error;
}

size_t Context::post_recv(Qp& qp, std::span<const transport::RecvRequest> requests, int& error) {
  return tell(device_->engine().post_receives(*qp.queue, requests), error);
}

}  // namespace verbena::device
