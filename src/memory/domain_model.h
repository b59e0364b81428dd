// SPDX-License-Identifier: Apache-2.0
// The domain as simply as it can be said, for the property test: a list that is searched from the
// front, ranges in 128-bit arithmetic, no keys of its own (it is told which were given). Shares no
// code with the real one beyond the types of its interface.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <optional>

#include "memory/domain.h"

namespace verbena::memory {

class DomainModel {
 public:
  struct Thing {
    int window = 0;  // 0: a region, else the window's type
    PdId pd{};
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    bool bound = false;  // windows
    Qpn qpn{};           // windows of type 2
    uint32_t access = 0;
    uint64_t start = 0;
    uint64_t length = 0;
    uint8_t* memory = nullptr;
    Accessor* accessor = nullptr;
    Thing* region = nullptr;  // bound windows
  };
  struct Verdict {
    Fault fault = Fault::kNone;
    uint8_t* memory = nullptr;
  };

  DomainModel(const Limits& limits, bool strict) : limits_(limits), strict_(strict) {}

  std::map<uint32_t, bool> pds;
  std::list<Thing> things;

  Thing* by_lkey(LKey key) {
    for (Thing& thing : things) {
      if (thing.window == 0 && thing.lkey == key.value) return &thing;
    }
    return nullptr;
  }
  Thing* by_rkey(RKey key) {
    for (Thing& thing : things) {
      if (thing.rkey != 0 && thing.rkey == key.value) return &thing;
    }
    return nullptr;
  }
  // By any key that it has had.
  Thing* by_window(RKey key) {
    for (Thing& thing : things) {
      if (thing.window != 0 && thing.rkey / 256 == key.value / 256) return &thing;
    }
    return nullptr;
  }
  int windows_of(const Thing* region) const {
    int count = 0;
    for (const Thing& thing : things) count += thing.bound && thing.region == region ? 1 : 0;
    return count;
  }
  bool pd_in_use(PdId pd) const {
    for (const Thing& thing : things) {
      if (thing.pd == pd) return true;
    }
    return false;
  }
  bool regions_full() const { return of_kind(false) >= limits_.max_regions; }
  bool windows_full() const { return of_kind(true) >= limits_.max_windows; }
  bool strict() const { return strict_; }

  static bool within(uint64_t addr, uint64_t length, uint64_t start, uint64_t total) {
    using Wide = unsigned __int128;
    return addr >= start && Wide{addr} + length <= Wide{start} + total;
  }

  std::optional<Error> refuses(PdId pd, const RegionSpec& spec) const {
    const auto has = [&](uint32_t right) { return (spec.access & right) != 0; };
    if (!pds.contains(pd.value)) return Error::kNoSuchPd;
    if (!has(kLocalWrite) && (has(kRemoteWrite) || has(kRemoteAtomic))) return Error::kInvalid;
    if (has(kOnDemand) != (spec.accessor != nullptr)) return Error::kInvalid;
    if (has(kZeroBased) && spec.iova != 0) return Error::kInvalid;
    if (!within(spec.iova, spec.length, 0, ~uint64_t{0}) &&
        spec.iova + (spec.length - 1) < spec.iova) {
      return Error::kInvalid;
    }
    if (spec.length > limits_.max_region_bytes) return Error::kTooMany;
    return std::nullopt;
  }

  Verdict use(const Thing* thing, PdId pd, Qpn qpn, uint32_t needed, uint64_t addr,
              uint64_t length) const {
    if (thing == nullptr) return {Fault::kNoSuchKey};
    if (thing->window != 0 && !thing->bound) return {Fault::kWrongState};
    if (thing->pd != pd) return {Fault::kWrongPd};
    if (thing->window == 2 && thing->qpn != qpn) return {Fault::kWrongQp};
    for (uint32_t right = 1; right != 0; right <<= 1) {
      if ((needed & right) != 0 && (thing->access & right) == 0) return {Fault::kNoAccess};
    }
    if (!within(addr, length, thing->start, thing->length)) return {Fault::kOutOfBounds};
    return {Fault::kNone, thing->memory + (addr - thing->start)};
  }

  // What a bind would say. `to` is the window, `region` what bind.region names.
  Fault bind(const Thing* to, const Thing* region, const RemoteUser& user,
             const WindowBind& bind) const {
    if (to == nullptr || to->window == 0) return Fault::kNoSuchKey;
    if (to->window == 2 && to->bound) return Fault::kWrongState;
    if (to->pd != user.pd) return Fault::kWrongPd;
    if ((bind.access & (kLocalWrite | kMwBind)) != 0) return Fault::kNoAccess;
    if (to->window == 1 && (bind.access & kZeroBased) != 0) return Fault::kNoAccess;
    if (bind.length == 0) return to->window == 2 ? Fault::kOutOfBounds : Fault::kNone;
    if (region == nullptr) return Fault::kNoSuchKey;
    if (region->pd != user.pd) return Fault::kWrongPd;
    if ((region->access & kMwBind) == 0) return Fault::kNoAccess;
    const bool writes = (bind.access & kRemoteWrite) != 0 || (bind.access & kRemoteAtomic) != 0;
    if (writes && (region->access & kLocalWrite) == 0) return Fault::kNoAccess;
    return within(bind.addr, bind.length, region->start, region->length) ? Fault::kNone
                                                                         : Fault::kOutOfBounds;
  }

  static Fault invalidate(const Thing* thing, PdId pd, const Qpn* qpn) {
    if (thing == nullptr) return Fault::kNoSuchKey;
    if (thing->window != 2 || !thing->bound) return Fault::kWrongState;
    if (thing->pd != pd) return Fault::kWrongPd;
    if (qpn != nullptr && thing->qpn != *qpn) return Fault::kWrongQp;
    return Fault::kNone;
  }

 private:
  size_t of_kind(bool window) const {
    return static_cast<size_t>(std::ranges::count_if(
        things, [&](const Thing& thing) { return (thing.window != 0) == window; }));
  }
  Limits limits_;
  bool strict_;
};

}  // namespace verbena::memory
