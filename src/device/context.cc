// SPDX-License-Identifier: Apache-2.0
// Context: protection domains, memory, completion queues.
#include <cerrno>

#include "device/device.h"

namespace verbena::device {
namespace {

[[nodiscard]] int errno_of(memory::Error error) {
  switch (error) {
    case memory::Error::kBusy:    return EBUSY;
    case memory::Error::kTooMany: return ENOMEM;
    default:                      return EINVAL;
  }
}

}  // namespace

Context::Context(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Engine::Locked locked(device_->engine());
  device_->contexts_.push_back(this);
}

Context::~Context() {
  const Engine::Locked locked(device_->engine());
  std::erase(device_->contexts_, this);
}

Outcome<std::unique_ptr<Pd>> Context::alloc_pd() {
  const Engine::Quiet locked(device_->engine());
  const auto id = locked.memory().allocate_pd();
  if (!id) return fail(errno_of(id.error()));
  return std::make_unique<Pd>(Pd{this, *id});
}

int Context::dealloc_pd(Pd& pd) {
  const Engine::Quiet locked(device_->engine());
  if (pd.users != 0) return EBUSY;
  const auto done = locked.memory().deallocate_pd(pd.id);
  return done ? 0 : errno_of(done.error());
}

Outcome<std::unique_ptr<Mr>> Context::reg_mr(Pd& pd, void* start, uint64_t length, uint64_t iova,
                                             uint32_t access) {
  const bool on_demand = (access & memory::kOnDemand) != 0;
  if (!on_demand) {
    const bool writable = (access & memory::kLocalWrite) != 0;
    if (const int error = populate(start, length, writable); error != 0) return fail(error);
  }
  auto* const base = static_cast<uint8_t*>(start);
  const Engine::Quiet locked(device_->engine());
  const auto keys = locked.memory().register_region(
      pd.id, {.base = base,
              .length = length,
              .iova = iova,
              .access = access,
              .accessor = on_demand ? &device_->on_demand_ : nullptr});
  if (!keys) return fail(errno_of(keys.error()));
  return std::make_unique<Mr>(Mr{&pd, base, length, access, keys->lkey, keys->rkey});
}

int Context::dereg_mr(Mr& mr) {
  const Engine::Locked locked(device_->engine());
  const auto done = locked.memory().deregister_region(mr.lkey);
  return done ? 0 : errno_of(done.error());
}

Outcome<RKey> Context::alloc_mw(Pd& pd, memory::WindowType type) {
  const Engine::Quiet locked(device_->engine());
  const auto rkey = locked.memory().allocate_window(pd.id, type);
  if (!rkey) return fail(errno_of(rkey.error()));
  return *rkey;
}

int Context::dealloc_mw(RKey window) {
  const Engine::Locked locked(device_->engine());
  const auto done = locked.memory().deallocate_window(window);
  return done ? 0 : errno_of(done.error());
}

Outcome<std::unique_ptr<CompletionQueue>> Context::create_cq(uint32_t entries,
                                                             CompletionChannel* channel) {
  if (entries == 0 || entries > device_->limits().max_cqe) return fail(EINVAL);
  // Before the lock is taken: a large one takes tens of milliseconds to clear.
  auto cq = std::make_unique<CompletionQueue>(device_->engine(), entries, channel);
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
  device_->engine().forget(cq);
  if (cq.channel() != nullptr) {
    cq.channel()->forget(cq);
    --cq.channel()->users;
  }
  events_.forget(cq.cookie);
  return 0;
}

int Context::resize_cq(CompletionQueue& cq, uint32_t entries) {
  if (entries == 0 || entries > device_->limits().max_cqe) return EINVAL;
  // As in create_cq: made before the lock is taken, and what it replaces is freed after.
  CompletionQueue::Ring ring = CompletionQueue::ring_for(entries);
  const Engine::Locked locked(device_->engine());
  return cq.resize(entries, ring);
}

uint32_t Context::poll_cq(CompletionQueue& cq, std::span<transport::Completion> out) {
  if (const uint32_t got = cq.poll(out); got != 0) {
    device_->engine().still_polling();
    return got;
  }
  device_->engine().poll();
  return cq.poll(out);
}

void Context::req_notify_cq(CompletionQueue& cq, bool solicited_only) {
  cq.arm(solicited_only);
  device_->engine().armed();
}

int Context::get_cq_event(CompletionChannel& channel, CompletionQueue*& cq) {
  return device_->engine().wait(channel, cq);
}

}  // namespace verbena::device
