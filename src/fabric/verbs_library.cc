// SPDX-License-Identifier: Apache-2.0
#include "fabric/verbs_library.h"

#include <optional>

#include <fmt/format.h>

#include "base/mutex.h"
#include "fabric/library_loader.h"

namespace verbena::fabric {
namespace {

Result<VerbsLibrary> load_from(const std::string& folder) {
  VerbsLibrary all{};
  LibraryLoader loading(folder);
  void* const verbs = loading.open("libibverbs.so.1");
  void* const cm = loading.open("librdmacm.so.1");
#define VERBENA_VERBS(member, name) loading.find(verbs, "ibv_" #name, all.member)
#define VERBENA_CM(name) loading.find(cm, "rdma_" #name, all.name)
  VERBENA_VERBS(alloc_pd, alloc_pd);
  VERBENA_VERBS(dealloc_pd, dealloc_pd);
  VERBENA_VERBS(reg_mr, reg_mr);
  VERBENA_VERBS(dereg_mr, dereg_mr);
  VERBENA_VERBS(create_comp_channel, create_comp_channel);
  VERBENA_VERBS(destroy_comp_channel, destroy_comp_channel);
  VERBENA_VERBS(create_cq, create_cq);
  VERBENA_VERBS(destroy_cq, destroy_cq);
  VERBENA_VERBS(get_cq_event, get_cq_event);
  VERBENA_VERBS(ack_cq_events, ack_cq_events);
  VERBENA_VERBS(create_srq, create_srq);
  VERBENA_VERBS(destroy_srq, destroy_srq);
  VERBENA_VERBS(create_qp, create_qp);
  VERBENA_VERBS(destroy_qp, destroy_qp);
  VERBENA_VERBS(modify_qp, modify_qp);
  VERBENA_VERBS(query_device, query_device);
  VERBENA_VERBS(get_device_name, get_device_name);
  VERBENA_VERBS(wc_status_str, wc_status_str);
  VERBENA_CM(get_devices);
  VERBENA_CM(free_devices);
  VERBENA_CM(create_event_channel);
  VERBENA_CM(destroy_event_channel);
  VERBENA_CM(create_id);
  VERBENA_CM(destroy_id);
  VERBENA_CM(bind_addr);
  VERBENA_CM(listen);
  VERBENA_CM(resolve_addr);
  VERBENA_CM(resolve_route);
  VERBENA_CM(init_qp_attr);
  VERBENA_CM(connect);
  VERBENA_CM(establish);
  VERBENA_CM(accept);
  VERBENA_CM(reject);
  VERBENA_CM(disconnect);
  VERBENA_CM(get_cm_event);
  VERBENA_CM(ack_cm_event);
  VERBENA_CM(get_src_port);
#undef VERBENA_VERBS
#undef VERBENA_CM
  if (!loading.error().empty()) {
    return fail(fmt::format("the RDMA libraries cannot be loaded: {}", loading.error()));
  }
  return all;
}

}  // namespace

Result<const VerbsLibrary*> VerbsLibrary::load(const std::string& folder) {
  static Mutex mutex;
  static std::optional<VerbsLibrary> loaded VERBENA_GUARDED_BY(mutex);
  static std::string from VERBENA_GUARDED_BY(mutex);
  const MutexLock lock(mutex);
  if (!loaded) {
    auto library = load_from(folder);
    if (!library) return fail(library.error());
    loaded = *library;
    from = folder;
  }
  if (from != folder) {
    return fail(std::string("this process uses RDMA libraries from another directory already"));
  }
  return &*loaded;
}

}  // namespace verbena::fabric
