// SPDX-License-Identifier: Apache-2.0
// The objects behind the pointers that programs hold: each begins with rdma-core's public struct,
// which programs read, and goes on with ours.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>

#include "base/c_interface.h"
#include "base/mutex.h"
#include "device/device.h"
#include "keys/service.h"
#include "verbs/handle.h"
#include "verbs/newer.h"

namespace verbena::verbs {

// Objects of one kind that a context and those imported from it share, by their handle.
template <typename T>
class Shared {
 public:
  // A handle that `object` can be found by until it is removed.
  [[nodiscard]] uint32_t add(const std::shared_ptr<T>& object) {
    const MutexLock lock(mutex_);
    while (objects_.contains(++last_)) {}
    objects_.emplace(last_, object);
    return last_;
  }
  void remove(uint32_t handle) {
    const MutexLock lock(mutex_);
    objects_.erase(handle);
  }
  [[nodiscard]] std::shared_ptr<T> find(uint32_t handle) {
    const MutexLock lock(mutex_);
    const auto place = objects_.find(handle);
    return place != objects_.end() ? place->second : nullptr;
  }

 private:
  Mutex mutex_;
  uint32_t last_ VERBENA_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint32_t, std::shared_ptr<T>> objects_ VERBENA_GUARDED_BY(mutex_);
};

// Memory that stands for a device's own.
struct DeviceMemory {
  ~DeviceMemory();
  uint8_t* bytes = nullptr;
  size_t length = 0;
  std::atomic<uint32_t> regions{0};
};

// What an imported context finds again of the context it was imported from.
struct Session {
  Shared<device::Pd> pds;
  Shared<device::Mr> mrs;
  Shared<DeviceMemory> memories;
};

// Programs destroy these while other threads poll and post; what they hold can be large.
inline constexpr size_t kLinger = 16;

struct ContextObject : VerbsContext, Handle<ContextObject> {
  ContextObject(std::shared_ptr<device::Device> with, std::shared_ptr<Session> of)
      : device(std::move(with)), session(std::move(of)) {}
  device::Context device;
  std::shared_ptr<Session> session;
  std::atomic<uint32_t> counters{0};  // completion counters
};

struct TdObject : ibv_td, Handle<TdObject> {
  std::atomic<uint32_t> users{0};  // parent domains
};

// A protection domain, or a parent domain, which stands for one.
struct PdObject : ibv_pd, Handle<PdObject> {
  std::shared_ptr<device::Pd> pd;
  std::atomic<uint32_t> users{0};  // parent domains of this one
  // A parent domain's
  PdObject* parent = nullptr;
  TdObject* thread_domain = nullptr;
};

struct MrObject : ibv_mr, Handle<MrObject> {
  std::shared_ptr<device::Mr> mr;
  std::shared_ptr<DeviceMemory> memory;  // it is a part of
  bool plain = true;                     // may be registered anew
};

struct DmObject : ibv_dm, Handle<DmObject> {
  std::shared_ptr<DeviceMemory> memory;
};

// Memory that the library allocated for the program.
struct BufObject : Handle<BufObject> {
  ibv_pd* pd = nullptr;
  void* addr = nullptr;
  size_t size = 0;
};

struct CounterObject : CompCntr, Handle<CounterObject> {
  transport::OperationCounter counter;
};

struct MwObject : ibv_mw, Handle<MwObject> {};

// An indirect key.
struct KeyObject : keys::Key, Handle<KeyObject> {
  ibv_context* context = nullptr;
  std::shared_ptr<device::Pd> pd;
  memory::KeySpec spec;
};

struct ChannelObject : ibv_comp_channel, Handle<ChannelObject> {
  device::CompletionChannel channel;
};

// Programs see an ibv_cq, which an ibv_cq_ex begins like.
struct CqObject : ibv_cq_ex, Handle<CqObject, kLinger> {
  std::unique_ptr<device::CompletionQueue> cq;
  bool stamped = false;
  // Between start_poll and end_poll
  transport::Completion current;
  device::Stamp stamp;
};

struct XrcdObject : ibv_xrcd, Handle<XrcdObject> {
  std::shared_ptr<device::Xrcd> xrcd;
};

struct SrqObject : ibv_srq, Handle<SrqObject, kLinger> {
  std::unique_ptr<device::Srq> srq;
  ibv_srq_attr limits;  // as given
};

// Requests under construction, between wr_start and wr_complete. Nothing is allocated meanwhile.
struct WorkInProgress {
  // In each call that a program makes between these: the mutex is its thread's.
  void assert_started() const VERBENA_ASSERT_HELD(mutex) {}

  struct List {
    size_t first = 0;
    size_t count = 0;
    ibv_mw* window = nullptr;  // that it binds
  };
  Mutex mutex;  // held from wr_start on
  std::vector<transport::SendRequest> requests VERBENA_GUARDED_BY(mutex);
  std::vector<List> lists VERBENA_GUARDED_BY(mutex);  // of each, in `entries`
  std::vector<memory::Sge> entries VERBENA_GUARDED_BY(mutex);
  std::vector<uint8_t> inlined VERBENA_GUARDED_BY(mutex);
  // Those of requests to configure keys, `configs_used` of them. Kept, for the room in them; apart,
  // because requests point to them. (A deque would cost every queue pair 600 bytes.)
  std::vector<std::unique_ptr<memory::KeyConfig>> configs VERBENA_GUARDED_BY(mutex);
  size_t configs_used VERBENA_GUARDED_BY(mutex) = 0;
  // By the last of them, which is not complete.
  KeyObject* configured VERBENA_GUARDED_BY(mutex) = nullptr;
  transport::SendRequest scrap;  // takes what comes after an error, or without wr_start
  int error VERBENA_GUARDED_BY(mutex) = 0;
};

// Programs see an ibv_qp, which an ibv_qp_ex begins with.
struct QpObject : ibv_qp_ex, Handle<QpObject, kLinger> {
  std::unique_ptr<device::Qp> qp;
  WorkInProgress work;
  bool extended;   // made for ibv_wr_*
  ibv_qp_cap cap;  // as given to the program
  bool signal_all;
  ibv_ah_attr path;  // as the program gave it
  keys::Companion companion;
};

struct AhObject : ibv_ah, Handle<AhObject> {
  transport::Path path;
  std::shared_ptr<device::Pd> domain;
};

[[nodiscard]] inline ContextObject& of(ibv_context* context) {
  return *static_cast<ContextObject*>(verbs_get_ctx(context));
}
[[nodiscard]] inline PdObject& of(ibv_pd* pd) { return *static_cast<PdObject*>(pd); }
[[nodiscard]] inline MrObject& of(ibv_mr* mr) { return *static_cast<MrObject*>(mr); }
[[nodiscard]] inline ChannelObject& of(ibv_comp_channel* channel) {
  return *static_cast<ChannelObject*>(channel);
}
[[nodiscard]] inline CqObject& of(ibv_cq* cq) {
  return *static_cast<CqObject*>(reinterpret_cast<ibv_cq_ex*>(cq));
}
[[nodiscard]] inline CqObject& of(ibv_cq_ex* cq) { return *static_cast<CqObject*>(cq); }
[[nodiscard]] inline XrcdObject& of(ibv_xrcd* xrcd) { return *static_cast<XrcdObject*>(xrcd); }
[[nodiscard]] inline SrqObject& of(ibv_srq* srq) { return *static_cast<SrqObject*>(srq); }
[[nodiscard]] inline QpObject& of(ibv_qp* qp) {
  return *static_cast<QpObject*>(reinterpret_cast<ibv_qp_ex*>(qp));
}
[[nodiscard]] inline QpObject& of(ibv_qp_ex* qp) { return *static_cast<QpObject*>(qp); }
[[nodiscard]] inline AhObject& of(ibv_ah* ah) { return *static_cast<AhObject*>(ah); }
[[nodiscard]] inline DmObject& of(ibv_dm* dm) { return *static_cast<DmObject*>(dm); }
[[nodiscard]] inline TdObject& of(ibv_td* td) { return *static_cast<TdObject*>(td); }
[[nodiscard]] inline BufObject& of(ibv_buf* buf) { return *reinterpret_cast<BufObject*>(buf); }
[[nodiscard]] inline CounterObject& of(ibv_comp_cntr* counter) {
  return *static_cast<CounterObject*>(reinterpret_cast<CompCntr*>(counter));
}
[[nodiscard]] inline KeyObject& of(keys::Key* key) { return *static_cast<KeyObject*>(key); }
[[nodiscard]] inline MwObject& of(ibv_mw* mw) { return *static_cast<MwObject*>(mw); }

// Whether a program's pointer leads to something that it has not destroyed, nor its context. What
// does not is EINVAL.
[[nodiscard]] inline bool is_alive(ibv_context* context) {
  return context != nullptr && of(context).is_alive();
}
// An imported one may outlive the context that it was made in.
[[nodiscard]] inline bool is_alive(ibv_pd* pd) {
  return pd != nullptr && of(pd).is_alive() && of(pd->context).is_alive() && !of(pd).pd->abandoned;
}
[[nodiscard]] inline bool is_alive(keys::Key* key) {
  return key != nullptr && of(key).is_alive() && is_alive(of(key).context);
}
[[nodiscard]] inline bool is_alive(ibv_comp_cntr* counter) {
  return counter != nullptr && of(counter).is_alive() && is_alive(of(counter).context);
}
template <typename Shown>
[[nodiscard]] bool is_alive(Shown* shown) {
  return shown != nullptr && of(shown).is_alive() && of(shown->context).is_alive();
}
template <typename... Shown>
[[nodiscard]] bool are_alive(Shown*... shown) {
  return (is_alive(shown) && ...);
}
// The same for what may be left out, and must be of this context.
template <typename Shown>
[[nodiscard]] bool is_usable_in(ibv_context* context, Shown* shown) {
  return shown == nullptr || (is_alive(shown) && shown->context == context);
}

// Destroys an object if `finish` agrees.
template <typename Object, typename Finish>
[[nodiscard]] int destroy(Object& object, Finish&& finish) {
  if (!object.claim()) return EINVAL;
  int error = 0;
  try {
    error = finish();
  } catch (...) {
    object.disclaim();
    throw;
  }
  if (error != 0) {
    object.disclaim();
    return error;
  }
  object.retire();
  return 0;
}

// For calls that give a pointer: no object, and errno.
[[nodiscard]] inline std::nullptr_t none(int error) {
  errno = error;
  return nullptr;
}

// Around every call that is not for data. Nothing is thrown into the program: what runs out of
// memory says ENOMEM. A pointer is given with an errno that `call` set, or it is an error number.
template <typename Call>
[[nodiscard]] auto guarded(Call&& call) -> decltype(call()) {
  constexpr bool kPointer = std::is_pointer_v<decltype(call())>;
  try {
    if constexpr (kPointer) return call();
    if constexpr (!kPointer) return with_errno(call());
  } catch (const std::bad_alloc&) {
    if constexpr (kPointer) return none(ENOMEM);
    if constexpr (!kPointer) return with_errno(ENOMEM);
  }
}

// Whoever destroys an object waits until the events that were given about it are acknowledged.
void await_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                uint32_t given);

// Whether a bind that a program posts itself may be: type 2 alone.
[[nodiscard]] inline bool is_bindable(const ibv_mw* mw, const ibv_mw_bind_info& info) {
  return mw != nullptr && mw->type == IBV_MW_TYPE_2 && info.mr != nullptr;
}

[[nodiscard]] inline memory::WindowBind bind_of(const ibv_mw_bind_info& info, uint32_t rkey) {
  return {.region = LKey(info.mr != nullptr ? info.mr->lkey : 0),
          .addr = info.addr,
          .length = info.length,
          // The window grants rights to peers alone; programs name this one too.
          .access = info.mw_access_flags & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE),
          .tag = static_cast<uint8_t>(rkey)};
}

// The key that a window has once a bind of type 2 is executed: the program chooses its last eight
// bits alone.
[[nodiscard]] inline uint32_t key_after(const ibv_mw& mw, uint32_t chosen) {
  return (mw.rkey & ~0xffu) | (chosen & 0xff);
}

// The calls that programs reach through their context, not by name.
void fill_operations(ContextObject& context);
// Through their completion queue, and through their queue pair, likewise.
void fill_reading(CqObject& cq);
void fill_work_calls(QpObject& qp);

}  // namespace verbena::verbs
