// SPDX-License-Identifier: Apache-2.0
// Devices: the list, opening and closing, and what can be asked of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "identity/identity.h"
#include "verbs/device_memory.h"
#include "verbs/identity.h"
#include "verbs/import.h"
#include "verbs/objects.h"
#include "verbs/operations.h"

#undef ibv_query_port

namespace verbena::verbs {
namespace {

constexpr uint8_t kPort = identity::kPortNumber;
constexpr uint16_t kDefaultPkey = identity::kPort.pkey;  // in either byte order

// IB_UVERBS_DEVICE_ATOMIC_WRITE of kernel headers since 6.2.
constexpr uint64_t kAtomicWrite = uint64_t{1} << 40;

void describe_port(ContextObject& context, ibv_port_attr& attr) {
  attr = {};
  attr.state = static_cast<ibv_port_state>(identity::kPort.state);
  attr.max_mtu = static_cast<ibv_mtu>(context.device.device().gids().largest_mtu());
  attr.active_mtu = static_cast<ibv_mtu>(context.device.device().gids().active_mtu());
  attr.gid_tbl_len = static_cast<int>(context.device.device().limits().max_gids);
  attr.max_msg_sz = uint32_t{1} << 31;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = 1;
  attr.port_cap_flags = identity::kPort.capabilities;
  attr.active_width = identity::kPort.width;
  attr.active_speed = identity::kPort.speed;
  attr.phys_state = identity::kPort.physical_state;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
}

[[nodiscard]] int errno_of(const device::StartError& error) {
  switch (error.kind) {
    case device::StartError::Kind::kPortTakenByOther: return EADDRINUSE;
    case device::StartError::Kind::kNoSlot:           return ENOSPC;
    case device::StartError::Kind::kNoAnswer:         return ETIMEDOUT;
    case device::StartError::Kind::kVersion:          return EPROTONOSUPPORT;
    case device::StartError::Kind::kSystem:           break;
  }
  return error.code != 0 ? error.code : ENODEV;
}

// One for each processor, as rxe has them. Programs spread their queues over them; whichever they
// name, the thread that waits is the one to be woken.
[[nodiscard]] int completion_vectors() {
  return static_cast<int>(std::clamp(::sysconf(_SC_NPROCESSORS_CONF), 1L, 1024L));
}

void describe_odp(ibv_device_attr_ex& attr) {
  constexpr uint32_t kDatagrams =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr uint32_t kWrites = kDatagrams | IBV_ODP_SUPPORT_WRITE;
  constexpr uint32_t kAll = kWrites | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr.odp_caps.per_transport_caps = {
      .rc_odp_caps = kAll, .uc_odp_caps = kWrites, .ud_odp_caps = kDatagrams};
  attr.xrc_odp_caps = kAll;
}

}  // namespace

ibv_context* open_context(std::shared_ptr<Session> session, int cmd_fd) {
  const identity::Settings& settings = identity::settings();
  device::EngineOptions options;
  options.gids = settings.gids;
  options.counters_file = settings.counters_file;
  options.quiet = settings.quiet;
  options.link = settings.link;
  options.secret_file = settings.secret_file;
  options.host.udp.receive_buffer_bytes = settings.receive_buffer_bytes;
  options.node_guid = be64toh(identity::node_guid());
  auto acquired = device::Device::acquire(options);
  if (!acquired) {
    if (settings.verbose) std::fprintf(stderr, "verbena: %s\n", acquired.error().what.c_str());
    return none(errno_of(acquired.error()));
  }
  if (settings.verbose && !(*acquired)->notice().empty()) {
    std::fprintf(stderr, "verbena: %s\n", (*acquired)->notice().c_str());
  }
  auto context = std::make_unique<ContextObject>(std::move(*acquired), std::move(session));
  if (!context->device.events().valid()) {
    context.reset();  // before errno is set
    return none(EMFILE);
  }
  static_cast<verbs_context&>(*context) = {};
  ibv_context& shown = context->context;
  context->sz = sizeof(VerbsContext);
  shown.abi_compat = __VERBS_ABI_IS_EXTENDED;
  shown.device = the_device();
  shown.cmd_fd = cmd_fd;
  shown.async_fd = context->device.events().fd();
  shown.num_comp_vectors = completion_vectors();
  ::pthread_mutex_init(&shown.mutex, nullptr);
  fill_operations(*context);
  return &context.release()->context;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  return guarded([=] {
    if (!is_alive(context) || values == nullptr) return EINVAL;
    constexpr uint32_t kKnown = IBV_VALUES_MASK_RAW_CLOCK;
    if ((values->comp_mask & ~kKnown) != 0) return EINVAL;
    // In ticks of the clock that stamps completions, as others give it: seconds stay 0.
    values->raw_clock = {.tv_sec = 0, .tv_nsec = static_cast<long>(device::raw_clock_ns())};
    return 0;
  });
}

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr, size_t size) {
  return guarded([=] {
    if (!is_alive(context) || attr == nullptr || port != kPort) return EINVAL;
    ibv_port_attr whole;
    describe_port(of(context), whole);
    std::memset(attr, 0, size);
    std::memcpy(attr, &whole, std::min(size, sizeof whole));
    const uint32_t speed = whole.active_speed;
    if (size >= kActiveSpeedExOffset + sizeof speed) {
      std::memcpy(reinterpret_cast<uint8_t*>(attr) + kActiveSpeedExOffset, &speed, sizeof speed);
    }
    return 0;
  });
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, size_t size) {
  return guarded([=] {
    if (!is_alive(context) || attr == nullptr) return EINVAL;
    if (input != nullptr && input->comp_mask != 0) return EINVAL;
    if (size < offsetof(ibv_device_attr_ex, comp_mask) + sizeof attr->comp_mask) return EINVAL;
    ibv_device_attr_ex whole{};
    describe(of(context).device.device().limits(), whole.orig_attr);
    whole.phys_port_cnt_ex = 1;
    describe_odp(whole);
    whole.completion_timestamp_mask = UINT64_MAX;
    whole.hca_core_clock = 1'000'000;  // kHz: stamps are in nanoseconds
    whole.device_cap_flags_ex = whole.orig_attr.device_cap_flags | kAtomicWrite;
    whole.max_dm_size = kDeviceMemoryBytes;
    std::memset(attr, 0, size);
    std::memcpy(attr, &whole, std::min(size, sizeof whole));
    return 0;
  });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_device** ibv_get_device_list(int* count) {
  auto** const list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) return none(ENOMEM);
  list[0] = the_device();
  if (count != nullptr) *count = 1;
  return list;
}

VERBENA_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(static_cast<void*>(list)); }

VERBENA_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }
VERBENA_EXPORT __be64 ibv_get_device_guid(ibv_device*) { return identity::node_guid(); }
VERBENA_EXPORT int ibv_get_device_index(ibv_device*) { return 0; }

VERBENA_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  if (device != the_device()) return none(ENODEV);
  return guarded([]() -> ibv_context* {
    auto session = std::make_shared<Session>();
    const int cmd_fd = open_session(session);
    if (cmd_fd < 0) return nullptr;
    ibv_context* const context = open_context(std::move(session), cmd_fd);
    if (context == nullptr) {
      const int error = errno;
      ::close(cmd_fd);
      errno = error;
    }
    return context;
  });
}

VERBENA_EXPORT int ibv_close_device(ibv_context* context) {
  return guarded([=] {
    if (!is_alive(context)) return EINVAL;
    return destroy(of(context), [=] {
      ::close(context->cmd_fd);
      ::pthread_mutex_destroy(&context->mutex);
      return 0;
    });
  });
}

VERBENA_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return guarded([=] {
    if (!is_alive(context) || attr == nullptr) return EINVAL;
    describe(of(context).device.device().limits(), *attr);
    return 0;
  });
}

// The exported one knows the struct as it was before port_cap_flags2.
VERBENA_EXPORT int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  constexpr size_t kOldBytes = offsetof(ibv_port_attr, port_cap_flags2);
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), kOldBytes);
}

VERBENA_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  if (!is_alive(context) || gid == nullptr) {
    errno = EINVAL;
    return -1;
  }
  device::Device& device = of(context).device.device();
  if (port != kPort || index < 0 || static_cast<uint32_t>(index) >= device.limits().max_gids) {
    errno = EINVAL;
    return -1;
  }
  std::memset(gid, 0, sizeof *gid);
  if (const auto entry = device.gids().at(static_cast<uint32_t>(index))) {
    std::memcpy(gid->raw, entry->gid.bytes.data(), sizeof gid->raw);
  }
  return 0;
}

namespace {

void describe_gid(const device::GidEntry& entry, uint32_t index, ibv_gid_entry& out) {
  out = {};
  std::memcpy(out.gid.raw, entry.gid.bytes.data(), sizeof out.gid.raw);
  out.gid_index = index;
  out.port_num = kPort;
  out.gid_type = entry.shown_as_v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  out.ndev_ifindex = entry.interface_index;
}

[[nodiscard]] bool is_zero(const wire::Gid& gid) { return gid == wire::Gid{}; }

}  // namespace

VERBENA_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                     ibv_gid_entry* entry, uint32_t flags, size_t size) {
  return guarded([=] {
    if (!is_alive(context) || entry == nullptr || port != kPort || flags != 0) return EINVAL;
    const auto found = of(context).device.device().gids().at(index);
    if (!found || is_zero(found->gid)) return ENODATA;
    ibv_gid_entry whole;
    describe_gid(*found, index, whole);
    std::memset(entry, 0, size);
    std::memcpy(entry, &whole, std::min(size, sizeof whole));
    return 0;
  });
}

VERBENA_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                            size_t most, uint32_t flags, size_t size) {
  if (!is_alive(context) || (entries == nullptr && most != 0) || flags != 0)
    return -with_errno(EINVAL);
  const auto all = of(context).device.device().gids().entries();
  size_t count = 0;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (is_zero(all[i].gid)) continue;
    if (count == most) return -with_errno(EINVAL);
    ibv_gid_entry whole;
    describe_gid(all[i], i, whole);
    auto* const to = reinterpret_cast<uint8_t*>(entries) + count * size;
    std::memset(to, 0, size);
    std::memcpy(to, &whole, std::min(size, sizeof whole));
    ++count;
  }
  return static_cast<ssize_t>(count);
}

VERBENA_EXPORT int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned index,
                                      int* type) {
  if (!is_alive(context) || type == nullptr) {
    errno = EINVAL;
    return -1;
  }
  device::Device& device = of(context).device.device();
  if (port != kPort || index >= device.limits().max_gids) {
    errno = EINVAL;
    return -1;
  }
  const auto entry = device.gids().at(index);
  *type = entry && entry->shown_as_v1 ? 0 : 1;  // as sysfs says "IB/RoCE v1", "RoCE v2"
  return 0;
}

VERBENA_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  if (!is_alive(context) || pkey == nullptr || port != kPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = kDefaultPkey;
  return 0;
}

VERBENA_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  if (is_alive(context) && port == kPort && (pkey == kDefaultPkey || pkey == htobe16(0x7fff)))
    return 0;
  errno = EINVAL;
  return -1;
}
