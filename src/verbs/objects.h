// SPDX-License-Identifier: Apache-2.0
// The objects behind the pointers that programs hold: each begins with rdma-core's public struct,
// which programs read, and goes on with ours.
#pragma once

#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <infiniband/verbs.h>

#include "base/c_interface.h"
#include "device/device.h"

namespace verbena::verbs {

struct ContextObject : verbs_context {
  explicit ContextObject(std::shared_ptr<device::Device> with) : device(std::move(with)) {}
  device::Context device;
};

struct PdObject : ibv_pd {
  std::unique_ptr<device::Pd> pd;
};

struct MrObject : ibv_mr {
  std::unique_ptr<device::Mr> mr;
};

struct ChannelObject : ibv_comp_channel {
  device::CompletionChannel channel;
};

// Programs see an ibv_cq, which an ibv_cq_ex begins like.
struct CqObject : ibv_cq_ex {
  std::unique_ptr<device::CompletionQueue> cq;
  transport::Completion current;  // between start_poll and end_poll
};

struct XrcdObject : ibv_xrcd {
  std::shared_ptr<device::Xrcd> xrcd;
};

struct SrqObject : ibv_srq {
  std::unique_ptr<device::Srq> srq;
  ibv_srq_attr limits;  // as given
};

// Requests under construction, between wr_start and wr_complete. Nothing is allocated meanwhile.
struct WorkInProgress {
  struct List {
    size_t first = 0;
    size_t count = 0;
  };
  std::mutex mutex;  // held from wr_start on
  std::vector<transport::SendRequest> requests;
  std::vector<List> lists;  // of each, in `entries`
  std::vector<memory::Sge> entries;
  std::vector<uint8_t> inlined;
  transport::SendRequest scrap;  // takes what comes after an error
  int error = 0;
};

// Programs see an ibv_qp, which an ibv_qp_ex begins with.
struct QpObject : ibv_qp_ex {
  std::unique_ptr<device::Qp> qp;
  WorkInProgress work;
  bool extended;   // made for ibv_wr_*
  ibv_qp_cap cap;  // as given to the program
  bool signal_all;
  ibv_ah_attr path;  // as the program gave it
};

struct AhObject : ibv_ah {
  transport::Path path;
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
[[nodiscard]] inline XrcdObject& of(ibv_xrcd* xrcd) { return *static_cast<XrcdObject*>(xrcd); }
[[nodiscard]] inline SrqObject& of(ibv_srq* srq) { return *static_cast<SrqObject*>(srq); }
[[nodiscard]] inline QpObject& of(ibv_qp* qp) {
  return *static_cast<QpObject*>(reinterpret_cast<ibv_qp_ex*>(qp));
}
[[nodiscard]] inline AhObject& of(ibv_ah* ah) { return *static_cast<AhObject*>(ah); }

// For calls that give a pointer: no object, and errno.
[[nodiscard]] inline std::nullptr_t none(int error) {
  errno = error;
  return nullptr;
}

// Nothing is thrown into the program: what runs out of memory says ENOMEM.
template <typename Call>
[[nodiscard]] auto guarded(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_pointer_v<decltype(call())>) return none(ENOMEM);
    if constexpr (!std::is_pointer_v<decltype(call())>) return ENOMEM;
  }
}

// The calls that programs reach through their context, not by name.
void fill_operations(ContextObject& context);
// Through their completion queue, and through their queue pair, likewise.
void fill_reading(CqObject& cq);
void fill_work_calls(QpObject& qp);
[[nodiscard]] ibv_srq* make_srq(ibv_pd* pd, device::SrqRequest request, void* srq_context);

}  // namespace verbena::verbs
