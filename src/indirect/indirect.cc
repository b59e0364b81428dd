// SPDX-License-Identifier: Apache-2.0
// The calls of <verbena/indirect.h>.
#include "verbena/indirect.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "base/c_interface.h"
#include "indirect/service.h"

namespace {

using verbena::LKey;
using verbena::indirect::service;
using verbena::keys::Key;
using verbena::memory::KeyConfig;

// A verbena_indirect_mr is a Key.
static_assert(sizeof(verbena_indirect_mr) == sizeof(Key) &&
              offsetof(verbena_indirect_mr, rkey) == offsetof(Key, rkey));

[[nodiscard]] Key* of(verbena_indirect_mr* mr) { return reinterpret_cast<Key*>(mr); }

[[nodiscard]] std::nullptr_t none(int error) {
  errno = error;
  return nullptr;
}

// The first `length` bytes of the list. 0 or EINVAL.
[[nodiscard]] int set_blocks(const verbena_indirect_reg& reg, KeyConfig& config) {
  if (reg.list == nullptr || reg.list_len > reg.list->max_entries) return EINVAL;
  uint64_t left = reg.length;
  for (uint32_t i = 0; i < reg.list_len && left > 0; ++i) {
    const ibv_sge& entry = reg.list->entries[i];
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(entry.length, left));
    config.blocks.push_back(
        {.addr = entry.addr, .bytes = bytes, .skip = 0, .key = LKey(entry.lkey)});
    left -= bytes;
  }
  return left == 0 ? 0 : EINVAL;
}

[[nodiscard]] int translate(const verbena_indirect_reg& reg, KeyConfig& config) {
  constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if ((reg.access_flags & ~kAccess) != 0 || reg.length == 0) return EINVAL;
  if (reg.iova_start > UINT64_MAX - reg.length) return EINVAL;
  config.access = reg.access_flags;
  config.start = reg.iova_start;
  config.has_layout = true;
  config.blocks.clear();
  return set_blocks(reg, config);
}

// Calls use(service, config) with what the registration says.
template <typename Use>
[[nodiscard]] int with_config(const verbena_indirect_reg& reg, Use&& use) {
  auto* const device = service();
  if (device == nullptr) return EOPNOTSUPP;
  // Its room is kept: nothing is allocated for each request.
  thread_local KeyConfig config;
  try {
    const int error = translate(reg, config);
    return error == 0 ? use(*device, config) : error;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

}  // namespace

VERBENA_EXPORT verbena_indirect_list* verbena_alloc_indirect_list(uint32_t max_entries) {
  if (max_entries == 0) return none(EINVAL);
  std::unique_ptr<verbena_indirect_list> list(new (std::nothrow) verbena_indirect_list{});
  if (list == nullptr) return none(ENOMEM);
  list->entries = new (std::nothrow) ibv_sge[max_entries]();
  if (list->entries == nullptr) return none(ENOMEM);
  list->max_entries = max_entries;
  return list.release();
}

VERBENA_EXPORT void verbena_free_indirect_list(verbena_indirect_list* list) {
  if (list == nullptr) return;
  delete[] list->entries;
  delete list;
}

VERBENA_EXPORT verbena_indirect_mr* verbena_create_indirect_mr(
    ibv_pd* pd, const verbena_indirect_mr_attr* attr) {
  auto* const device = service();
  if (device == nullptr) return none(EOPNOTSUPP);
  if (pd == nullptr || attr == nullptr || attr->max_entries == 0 ||
      (attr->flags & ~unsigned{VERBENA_INDIRECT_REMOTE_INVALIDATE}) != 0) {
    return none(EINVAL);
  }
  const bool by_peer = (attr->flags & VERBENA_INDIRECT_REMOTE_INVALIDATE) != 0;
  return reinterpret_cast<verbena_indirect_mr*>(device->create(
      pd, {.max_entries = attr->max_entries, .signature = false, .remote_invalidate = by_peer}));
}

VERBENA_EXPORT int verbena_destroy_indirect_mr(verbena_indirect_mr* mr) {
  auto* const device = service();
  return device != nullptr ? device->destroy(of(mr)) : EOPNOTSUPP;
}

VERBENA_EXPORT int verbena_reg_indirect_mr(verbena_indirect_mr* mr,
                                           const verbena_indirect_reg* reg) {
  if (reg == nullptr) return EINVAL;
  return with_config(*reg, [mr](auto& device, const KeyConfig& config) {
    return device.configure(of(mr), config);
  });
}

VERBENA_EXPORT int verbena_post_reg_indirect_mr(ibv_qp* qp, const verbena_indirect_reg_wr* wr) {
  if (wr == nullptr) return EINVAL;
  return with_config(wr->reg, [qp, wr](auto& device, const KeyConfig& config) {
    return device.post_configure(qp, wr->wr_id, wr->send_flags, of(wr->mr), config);
  });
}
