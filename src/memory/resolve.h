// SPDX-License-Identifier: Apache-2.0
// The one place where a use of a key is looked up and checked. Every use, local or remote, of a
// region or a window, passes here; the order of the checks is the order of Fault
// (IBA 9.7.4.1.5, 10.6.3).
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "memory/access.h"
#include "memory/keys.h"

namespace verbena::memory {

// Which of an entry's keys was presented: an lkey is no rkey unless the region says so.
enum class Side : uint8_t { kLocal, kRemote };

struct Use {
  uint32_t key = 0;
  PdId pd{};
  Qpn qpn{};            // looked at for type 2 windows alone
  uint32_t needed = 0;  // Access; 0: local read, which every region allows
  uint64_t addr = 0;
  uint64_t length = 0;
};

// Where the bytes are. Good until the domain's next change of regions or windows.
struct Place {
  const Layout* layout = nullptr;
  uint64_t offset = 0;
};

template <Side side>
[[nodiscard]] inline Fault resolve(const KeyTable& keys, const Use& use, Place& place) {
  const Entry* const entry = keys.find(use.key);
  if (entry == nullptr) return Fault::kNoSuchKey;
  // The tag: the low 8 bits distinguish this bind or registration from those before it.
  if ((side == Side::kLocal ? entry->lkey : entry->rkey) != use.key) return Fault::kNoSuchKey;
  if (!entry->usable) return Fault::kWrongState;
  if (entry->pd != use.pd) return Fault::kWrongPd;
  if (entry->kind == Kind::kWindow2 && entry->qpn != use.qpn) return Fault::kWrongQp;
  // A window's rights are its own; what the region must grant for them was checked by the bind, and
  // a region with bound windows does not change.
  if ((entry->access & use.needed) != use.needed) return Fault::kNoAccess;
  // An address below the start wraps to an offset far beyond any length. Nothing here can overflow.
  const uint64_t offset = use.addr - entry->start;
  const uint64_t length = entry->layout.length();
  if (offset > length || use.length > length - offset) return Fault::kOutOfBounds;
  place = {&entry->layout, offset};
  return Fault::kNone;
}

}  // namespace verbena::memory
