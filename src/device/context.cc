// SPDX-License-Identifier: Apache-2.0
// Context: completion queues.
#include <cerrno>
#include <ranges>

#include "device/device.h"

namespace verbena::device {

Context::Context(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Engine::Locked locked(device_->engine());
  device_->contexts_.push_back(this);
}

// What its program did not destroy goes with it, as with a device's file in the kernel: queue pairs
// fall silent, and no key leads to memory any more.
Context::~Context() {
  const Engine::Locked locked(device_->engine());
  std::erase(device_->contexts_, this);
  const auto ours = [this](const auto& entry) { return entry.second->context == this; };
  for (const auto& entry : device_->qps_ | std::views::filter(ours)) {
    leave_groups(locked.endpoint(), Qpn(entry.first));
    auto destroyed = locked.endpoint().destroy_qp(Qpn(entry.first));
    if (destroyed) entry.second->destroyed = std::move(*destroyed);
    release(*entry.second);
  }
  std::erase_if(device_->qps_, ours);
  for (const auto& entry : device_->srqs_ | std::views::filter(ours)) {
    auto destroyed = locked.endpoint().destroy_srq(SrqId(entry.first));
    if (destroyed) entry.second->destroyed = std::move(*destroyed);
    release(*entry.second);
  }
  std::erase_if(device_->srqs_, ours);
  for (const auto& [cq, context] : device_->cqs_) {
    if (context == this) release(*cq);
  }
  std::erase_if(device_->cqs_, [this](const auto& entry) { return entry.second == this; });
  std::erase_if(device_->reserved_qpns_,
                [this](const auto& entry) { return entry.second == this; });
  std::unordered_set<uint32_t> pds;
  for (Pd* const pd : pds_) {
    pds.insert(pd->id.value);
    pd->abandoned = true;
  }
  if (!pds.empty()) locked.memory().abandon_pds(pds);
}

void Context::release(CompletionQueue& cq) {
  device_->engine().forget(cq);
  if (cq.channel() == nullptr) return;
  cq.channel()->forget(cq);
  --cq.channel()->users;
}

Outcome<std::unique_ptr<CompletionQueue>> Context::create_cq(
    uint32_t entries, CompletionChannel* channel, const CompletionQueueOptions& options) {
  if (entries == 0 || entries > device_->limits().max_cqe) return fail(EINVAL);
  // Before the lock is taken: a large one takes tens of milliseconds to clear.
  auto cq = std::make_unique<CompletionQueue>(device_->engine(), entries, channel, options);
  const Engine::Quiet locked(device_->engine());
  if (device_->cqs_.size() >= device_->limits().max_cq) return fail(ENOMEM);
  device_->cqs_.emplace(cq.get(), this);
  if (channel != nullptr) ++channel->users;
  return cq;
}

int Context::destroy_cq(CompletionQueue& cq) {
  const Engine::Locked locked(device_->engine());
  if (cq.users != 0) return EBUSY;
  device_->cqs_.erase(&cq);
  release(cq);
  cq.async_events = events_.forget(cq.cookie);
  return 0;
}

int Context::resize_cq(CompletionQueue& cq, uint32_t entries) {
  if (entries == 0 || entries > device_->limits().max_cqe) return EINVAL;
  // As in create_cq: made before the lock is taken, and what it replaces is freed after.
  CompletionQueue::Ring ring = cq.ring_for(entries);
  const Engine::Locked locked(device_->engine());
  return cq.resize(ring);
}

uint32_t Context::poll_cq(CompletionQueue& cq, std::span<transport::Completion> out,
                          Stamp* stamps) {
  if (const uint32_t got = cq.poll(out, stamps); got != 0) {
    device_->engine().still_polling();
    return got;
  }
  device_->engine().poll();
  return cq.poll(out, stamps);
}

void Context::req_notify_cq(CompletionQueue& cq, bool solicited_only) {
  if (!cq.arm(solicited_only)) device_->engine().armed();
}

int Context::get_cq_event(CompletionChannel& channel, CompletionQueue*& cq) {
  return device_->engine().wait(channel, cq);
}

}  // namespace verbena::device
