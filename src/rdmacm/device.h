// SPDX-License-Identifier: Apache-2.0
// The device, as this process's one context of it; opened when it is first needed, and kept: all
// ids and rdma_get_devices() give the same context.
#pragma once

#include <cstdint>
#include <optional>

#include <infiniband/verbs.h>

#include "base/mutex.h"
#include "cm/service.h"
#include "wire/gid.h"

namespace verbena::rdmacm {

inline constexpr uint8_t kPort = 1;
inline constexpr uint16_t kPkey = 0xffff;

class Device {
 public:
  // nullptr and errno where it does not open.
  [[nodiscard]] static Device* open();

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] cm::Service& service() const { return *service_; }
  // Of RDMA READs and atomics: how many a queue pair answers at once, and how many it may have out.
  [[nodiscard]] uint8_t max_responder_resources() const { return max_responder_resources_; }
  [[nodiscard]] uint8_t max_initiator_depth() const { return max_initiator_depth_; }
  // The user's bound on the path MTU of connections that are made from here, as enum ibv_mtu.
  [[nodiscard]] uint8_t max_mtu() const { return max_mtu_; }
  // The index of an address of this host among the device's, as RoCE v2.
  [[nodiscard]] std::optional<uint8_t> gid_index(const wire::Gid& gid) const;
  // The domain of those who name none. nullptr and errno.
  [[nodiscard]] ibv_xrcd* xrcd();

 private:
  Device() = default;
  [[nodiscard]] bool start();

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  cm::Service* service_ = nullptr;
  uint8_t max_responder_resources_ = 0;
  uint8_t max_initiator_depth_ = 0;
  uint8_t max_mtu_ = 0;
  Mutex mutex_;
  ibv_xrcd* xrcd_ VERBENA_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace verbena::rdmacm
