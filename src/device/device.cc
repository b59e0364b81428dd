// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <pthread.h>
#include <sched.h>

#include "base/mutex.h"
#include "device/bounded_lock.h"
#include "device/group_address.h"

namespace verbena::device {
namespace {

// The process's device. A weak reference: it stops when the last context is closed. Leaked on
// purpose: programs call in from their own exit handlers.
struct Shared {
  Mutex mutex;  // held while the process forks, too
  std::weak_ptr<Device> device VERBENA_GUARDED_BY(mutex);
  // With those that nobody refers to any more and are about to go.
  std::vector<Device*> all VERBENA_GUARDED_BY(mutex);
  std::atomic<uint32_t> forking = 0;  // threads that want the mutex in order to fork

  // The mutex is not fair: who opens and closes all the time gives way to who wants to fork.
  void give_way() const {
    constexpr int kGiveWay = 1000;
    for (int i = 0; i < kGiveWay && forking.load(std::memory_order_relaxed) != 0; ++i) {
      ::sched_yield();
    }
  }
};
Shared& shared() {
  static auto* const instance = new Shared;
  return *instance;
}

// fork: the child has none of our descriptors and no helper; what it inherited is unusable, and
// harmless.
void prepare_fork() VERBENA_NO_THREAD_SAFETY {
  Shared& process = shared();
  ++process.forking;
  process.mutex.lock();
  --process.forking;
  for (Device* const device : process.all) device->before_fork();
}
void resume_parent() {
  Shared& process = shared();
  process.mutex.assert_held();  // by prepare_fork()
  for (Device* const device : process.all) device->after_fork_in_parent();
  process.mutex.unlock();
}
void start_child() {
  Shared& process = shared();
  process.mutex.assert_held();  // by prepare_fork()
  for (Device* const device : process.all) device->after_fork_in_child();
  process.all.clear();
  process.device.reset();
  process.forking = 0;  // those threads are not here
  process.mutex.unlock();
}

// Not while the process forks: the child would keep descriptors that nobody closes there.
struct TakeDown {
  void operator()(Device* device) const {
    Shared& process = shared();
    process.give_way();
    const MutexLock lock(process.mutex);
    std::erase(process.all, device);
    delete device;
  }
};

// What references to the device share. Made before the device is, so that handing it out takes no
// memory any more.
struct Held {
  Held() = default;
  ~Held() {
    if (device != nullptr) TakeDown{}(device);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  Device* device = nullptr;
};

// exit() without closing anything: peers still hear that what was completed here did arrive. Other
// threads may be anywhere, and off their core for a while.
void flush_at_exit() {
  constexpr Duration kBound = 200 * kMillisecond;
  Shared& process = shared();
  std::shared_ptr<Device> device;
  {
    if (!lock_within(process.mutex, kBound)) return;
    const MutexLock lock(process.mutex, std::adopt_lock);
    device = process.device.lock();
  }
  if (device != nullptr) device->engine().shut_down(kBound);
}

}  // namespace

Result<std::shared_ptr<Device>, StartError> Device::acquire(const EngineOptions& options) {
  Shared& process = shared();
  process.give_way();
  const MutexLock lock(process.mutex);
  if (auto device = process.device.lock()) return device;
  static const int kRegistered =
      ::pthread_atfork(prepare_fork, resume_parent, start_child) | std::atexit(flush_at_exit);
  (void)kRegistered;
  const auto held = std::make_shared<Held>();
  process.all.reserve(process.all.size() + 1);
  std::unique_ptr<Device> device(new Device);
  EngineOptions with_limits = options;
  const DeviceLimits& limits = device->limits_;
  with_limits.limits = {.max_qps = limits.max_qp,
                        .max_srqs = limits.max_srq,
                        .max_queue_entries = limits.max_qp_wr,
                        .max_sge = limits.max_sge,
                        .max_inline = limits.max_inline,
                        .max_rd_atomic = static_cast<uint8_t>(limits.max_rd_atomic)};
  with_limits.memory.limits = {.max_pds = limits.max_pd,
                               .max_regions = limits.max_mr,
                               .max_windows = limits.max_mw,
                               .max_region_bytes = limits.max_mr_bytes};
  auto engine = Engine::make(with_limits, *device);
  if (!engine) return fail(engine.error());
  device->engine_ = std::move(*engine);
  device->gids_.set_options(options.gids);
  device->gids_.refresh();  // after the link has asked for notices: none is missed
  // Last: its thread uses the rest.
  if (const auto helper = device->engine_->start_helper(); !helper) return fail(helper.error());
  held->device = device.release();
  std::shared_ptr<Device> started(held, held->device);
  process.device = started;
  process.all.push_back(started.get());
  return started;
}

Device::~Device() = default;

void Device::before_fork() {
  engine_->before_fork();
  for (const auto& [cq, context] : cqs_) {
    cq->before_fork();
    if (cq->channel() != nullptr) forking_.push_back(cq->channel());
  }
  std::ranges::sort(forking_);  // several queues may share one
  forking_.erase(std::ranges::unique(forking_).begin(), forking_.end());
  for (CompletionChannel* const channel : forking_) channel->before_fork();
  for (Context* const context : contexts_) context->events().before_fork();
  gids_.before_fork();
}

void Device::after_fork() {
  gids_.after_fork();
  for (Context* const context : contexts_) context->events().after_fork();
  for (CompletionChannel* const channel : forking_) channel->after_fork();
  forking_.clear();
  for (const auto& [cq, context] : cqs_) cq->after_fork();
}

void Device::after_fork_in_parent() {
  after_fork();
  engine_->after_fork_in_parent();
}

void Device::after_fork_in_child() {
  for (CompletionChannel* const channel : forking_) channel->abandon_in_child();
  for (Context* const context : contexts_) context->events().abandon_in_child();
  after_fork();
  engine_->abandon_in_child();
}

Outcome<transport::Path> Device::resolve(const AddressVector& vector) const {
  const auto source = gids_.at(vector.source_index);
  if (!source || vector.destination.is_zero()) return fail(EINVAL);
  const bool multicast = vector.destination.is_multicast();
  // A group that is an IPv6 address, from where IPv6 cannot reach it: the kernel has no IPv6
  // multicast on loopback.
  const bool by_ipv4 =
      multicast && !vector.destination.is_ipv4() && (source->gid.is_ipv4() || source->loopback);
  const wire::Gid from =
      by_ipv4 && !source->gid.is_ipv4() ? wire::Gid::from_ipv4(127, 0, 0, 1) : source->gid;
  const wire::Gid destination = by_ipv4 ? ipv4_group_of(vector.destination) : vector.destination;
  const bool ipv4 = from.is_ipv4();
  if (ipv4 != destination.is_ipv4()) return fail(EINVAL);
  const bool on_host = gids_.find(destination).has_value();
  if (!notice().empty() && !source->loopback && !multicast && !on_host) return fail(ENETUNREACH);
  const bool link_local =
      !ipv4 && destination.bytes[0] == 0xfe && (destination.bytes[1] & 0xc0) == 0x80;
  return transport::Path{
      .source = from,
      .destination = destination,
      .traffic_class = vector.traffic_class,
      .hop_limit = vector.hop_limit,
      .service_level = vector.service_level,
      // What is for ourselves does not leave by that interface.
      .largest_mtu = on_host ? transport::Mtu::k4096 : path_mtu_for(source->mtu_bytes),
      .interface_index = link_local || multicast ? source->interface_index : 0};
}

void Device::on_qp_event(transport::Event event, Qpn qpn) {
  engine().lock().assert_held();
  const auto place = qps_.find(qpn.value);
  if (place == qps_.end()) return;
  place->second->context->events().raise(
      {static_cast<EventType>(event), place->second->request.cookie});
}

void Device::on_srq_event(transport::Event event, SrqId srq) {
  engine().lock().assert_held();
  const auto place = srqs_.find(srq.value);
  if (place == srqs_.end()) return;
  place->second->context->events().raise({static_cast<EventType>(event), place->second->cookie});
}

void Device::on_addresses_changed() {
  engine().lock().assert_held();
  if (!gids_.refresh()) return;
  for (Context* const context : contexts_) {
    context->events().raise({EventType::kGidChange, nullptr});
  }
}

CompletionMarks Device::completions_of(Qpn qpn) {
  engine().lock().assert_held();
  const auto place = qps_.find(qpn.value);
  if (place == qps_.end()) return {};
  const auto published = [](const CompletionQueue* cq) {
    return cq != nullptr ? cq->published() : 0;
  };
  return {.send = published(place->second->request.send_cq),
          .recv = published(place->second->request.recv_cq)};
}

bool Device::were_polled(Qpn qpn, const CompletionMarks& marks) {
  engine().lock().assert_held();
  const auto place = qps_.find(qpn.value);
  if (place == qps_.end()) return true;
  const auto polled = [](const CompletionQueue* cq, uint64_t mark) {
    return cq == nullptr || cq->consumed() >= mark;
  };
  return polled(place->second->request.send_cq, marks.send) &&
         polled(place->second->request.recv_cq, marks.recv);
}

bool Device::has_unread_event(Qpn qpn) {
  engine().lock().assert_held();
  const auto place = qps_.find(qpn.value);
  return place != qps_.end() && place->second->context->events().has(place->second->request.cookie);
}

transport::Path Device::path_between(const wire::Gid& source, const wire::Gid& destination) {
  if (const auto index = gids_.find(source)) {
    if (const auto path = resolve({.destination = destination, .source_index = *index})) {
      return *path;
    }
  }
  return {.source = source, .destination = destination};
}

void Device::on_cq_overflow(CompletionQueue& cq) {
  engine().lock().assert_held();
  const auto place = cqs_.find(&cq);
  if (place != cqs_.end()) place->second->events().raise({EventType::kCqError, cq.cookie});
}

}  // namespace verbena::device
