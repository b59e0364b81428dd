// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include "base/c_interface.h"
#include "base/mutex.h"
#include "rdmacm/failure.h"
#include "rdmacm/process.h"
#include "rdmacm/sink.h"

// The one way from here into libibverbs.so.1 that is not public.
extern "C" verbena::cm::Service* verbena_connection_service(ibv_context* context);

namespace verbena::rdmacm {

bool Device::start() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return false;
  if (count > 0) context_ = ibv_open_device(list[0]);
  if (count == 0) errno = ENODEV;
  ibv_free_device_list(list);
  if (context_ == nullptr) return false;
  ibv_device_attr attr{};
  ibv_port_attr port{};
  pd_ = ibv_alloc_pd(context_);
  service_ = verbena_connection_service(context_);
  if (pd_ == nullptr || service_ == nullptr || ibv_query_device(context_, &attr) != 0 ||
      ibv_query_port(context_, kPort, &port) != 0) {
    errno = ENODEV;
    return false;
  }
  max_responder_resources_ = static_cast<uint8_t>(std::clamp(attr.max_qp_rd_atom, 0, 254));
  max_initiator_depth_ = static_cast<uint8_t>(std::clamp(attr.max_qp_init_rd_atom, 0, 254));
  max_mtu_ = static_cast<uint8_t>(port.max_mtu);
  service_->set_sink(&sink());
  return true;
}

namespace {

struct Opened {
  Mutex mutex;
  Device* device VERBENA_GUARDED_BY(mutex) = nullptr;
};

}  // namespace

Device* Device::open() {
  auto& opened = only<Opened>();
  const MutexLock lock(opened.mutex);
  if (opened.device != nullptr) return opened.device;
  auto* const fresh = new Device;
  if (!fresh->start()) {
    const int error = errno;
    if (fresh->pd_ != nullptr) (void)ibv_dealloc_pd(fresh->pd_);
    if (fresh->context_ != nullptr) (void)ibv_close_device(fresh->context_);
    delete fresh;
    errno = error;
    return nullptr;
  }
  return opened.device = fresh;
}

std::optional<uint8_t> Device::gid_index(const wire::Gid& gid) const {
  std::array<ibv_gid_entry, 256> entries;
  const ssize_t count = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
        std::memcmp(entry.gid.raw, gid.bytes.data(), gid.bytes.size()) == 0) {
      return static_cast<uint8_t>(entry.gid_index);
    }
  }
  return std::nullopt;
}

ibv_xrcd* Device::xrcd() {
  const MutexLock lock(mutex_);
  if (xrcd_ == nullptr) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    xrcd_ = ibv_open_xrcd(context_, &attr);
  }
  return xrcd_;
}

}  // namespace verbena::rdmacm

VERBENA_EXPORT ibv_context** rdma_get_devices(int* count) {
  using verbena::rdmacm::Device;
  if (count != nullptr) *count = 0;
  return verbena::rdmacm::guarded([&]() -> ibv_context** {
    Device* const device = Device::open();
    if (device == nullptr) return nullptr;
    auto** const list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
    if (list == nullptr) throw std::bad_alloc();
    list[0] = device->context();
    if (count != nullptr) *count = 1;
    return list;
  });
}

VERBENA_EXPORT void rdma_free_devices(ibv_context** list) { std::free(static_cast<void*>(list)); }
