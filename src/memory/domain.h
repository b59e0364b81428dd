// SPDX-License-Identifier: Apache-2.0
// The memory that a device may touch: protection domains, regions and windows, the keys to them,
// and the one place where a use of a key is checked (key, state, PD, queue pair, access, bounds,
// alignment).
//
// Nothing outside holds a pointer into a region across calls: each packet looks its key up again,
// so that a region that was deregistered, or a window that was invalidated, is gone for the very
// next packet. Owned by one thread at a time (the engine's lock); no I/O.
//
// Keys are 32 bits:  31..8 index, random, the table's key | 7..0 tag.
// For a region the tag is random too. A window's is chosen at each bind: by the consumer for type 2
// (ibv_inc_rkey), by ibv_bind_mw for type 1, which tells its caller the new key before the bind is
// executed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>

#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"
#include "memory/access.h"
#include "memory/accessor.h"
#include "memory/indirect_key.h"
#include "memory/pieces.h"

namespace verbena::memory {

enum class Error : uint8_t {
  kInvalid,  // arguments contradict each other (EINVAL)
  kNoSuchPd,
  kNoSuchKey,
  kBusy,     // region has bound windows, PD has members (EBUSY)
  kTooMany,  // a limit is reached (ENOMEM)
};
[[nodiscard]] const char* to_string(Error error);

struct Sge {
  uint64_t addr = 0;  // in the region's address space: iova, or 0-based
  uint32_t length = 0;
  LKey lkey{};
};

struct RegionSpec {
  uint8_t* base = nullptr;       // the memory
  uint64_t length = 0;           // 0: a key by which nothing can be used
  uint64_t iova = 0;             // address by which it is known; kZeroBased: must be 0
  uint32_t access = 0;           // Access
  Accessor* accessor = nullptr;  // only with kOnDemand; outlives the region
};

struct RegionKeys {
  LKey lkey{};
  RKey rkey{};  // 0 unless the region grants remote access
};

enum class WindowType : uint8_t { kType1 = 1, kType2 = 2 };

struct WindowBind {
  LKey region{};        // must grant kMwBind, and kLocalWrite if remote write or atomic is granted
  uint64_t addr = 0;    // in the region's address space
  uint64_t length = 0;  // 0: unbinds (type 1; `region` is not looked at); a fault for type 2
  uint32_t access = 0;  // remote rights, whichever the region itself grants; type 2: and kZeroBased
  // The low 8 bits of the new rkey; without: 0 for type 2, one more than it had for type 1.
  std::optional<uint8_t> tag{};
};

// Who uses a remote key.
struct RemoteUser {
  PdId pd{};
  Qpn qpn{};  // for type 2 windows
};

enum class AtomicOp : uint8_t { kCompareSwap, kFetchAdd };

struct Limits {
  uint32_t max_pds = 1 << 16;
  uint32_t max_regions = 1 << 17;
  uint32_t max_windows = 1 << 16;
  uint32_t max_indirect_keys = 1 << 16;
  uint64_t max_region_bytes = uint64_t{1} << 46;
};

struct QueryRegion {
  PdId pd{};
  RegionSpec spec{};
  RegionKeys keys{};
  uint32_t bound_windows = 0;
};

class Domain {
 public:
  // strict_keys: lkey and rkey always differ (the strict device); otherwise they are equal where
  // remote access is granted, as on rxe and mlx5.
  struct Options {
    Limits limits{};
    bool strict_keys = false;
    // By which plain memory is read that a peer had read before, and asks for again: once it has
    // had its answer, the owner may have let the memory go. nullptr: as any other. Outlives the
    // domain.
    Accessor* repeats = nullptr;
  };
  Domain(RandomSource& random, Options options);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  // --- protection domains
  [[nodiscard]] Result<PdId, Error> allocate_pd();
  [[nodiscard]] Result<void, Error> deallocate_pd(
      PdId pd);  // kBusy while regions or windows are in it
  // With whatever is in it. A region that a window of another domain is bound to stays.
  void abandon_pds(const std::unordered_set<uint32_t>& pds);

  // --- regions
  // kRemoteWrite and kRemoteAtomic need kLocalWrite (kInvalid otherwise, as verbs say).
  [[nodiscard]] Result<RegionKeys, Error> register_region(PdId pd, const RegionSpec& spec);
  [[nodiscard]] Result<void, Error> deregister_region(LKey lkey);
  // New rights, place or PD for a region; new keys unless only the PD, or nothing, changes. kBusy
  // while windows are bound. On any error the region is as it was (IBV_REREG_MR_ERR_INPUT).
  [[nodiscard]] Result<RegionKeys, Error> reregister_region(LKey lkey, PdId pd,
                                                            const RegionSpec& spec);
  [[nodiscard]] Result<QueryRegion, Error> query_region(LKey lkey) const;

  // --- windows
  [[nodiscard]] Result<RKey, Error> allocate_window(PdId pd, WindowType type);
  // Here and in bind_window() any key that the window has had names it: its owner need not know
  // which of the binds it posted was the last to be executed.
  [[nodiscard]] Result<void, Error> deallocate_window(RKey rkey);
  // Executes a bind that reached the head of a send queue; gives the key that is now valid: index |
  // bind.tag. Type 1: may be rebound at will. Type 2: must be in the free (unbound/invalidated)
  // state, is tied to `user.qpn`.
  // On a fault the window is as it was.
  [[nodiscard]] Result<RKey, Fault> bind_window(RKey window, const RemoteUser& user,
                                                const WindowBind& bind);
  // LOCAL_INV: the local owner invalidates a type 2 window (whatever QP it is bound to, same PD) or
  // an indirect key. Regions, type 1 windows, windows that are not bound and keys that are not
  // configured may not be: kWrongState.
  [[nodiscard]] Fault invalidate_local(RKey rkey, PdId pd);
  // SEND with invalidate from the peer: a type 2 window bound to this very QP, or an indirect key
  // that allows it (kNoAccess otherwise).
  [[nodiscard]] Fault invalidate_remote(RKey rkey, const RemoteUser& user);

  // --- indirect keys (docs/memory-keys.md)
  // Made free: every use of it is kWrongState until it is configured.
  [[nodiscard]] Result<RegionKeys, Error> create_key(PdId pd, const KeySpec& spec);
  [[nodiscard]] Result<void, Error> destroy_key(LKey lkey);
  // Executes a configuration that reached the head of a send queue, or was called for. A key is
  // usable once it has a layout. On a fault it is as it was.
  [[nodiscard]] Fault configure_key(LKey lkey, PdId pd, const KeyConfig& config);
  // Whether a use of `from` may come to this indirect key: it is the same, or lies over other keys,
  // whichever those are.
  [[nodiscard]] bool may_lead_to(LKey from, uint32_t key) const;
  // The first signature that was found wrong since the last call; none: no error.
  [[nodiscard]] Result<std::optional<SignatureError>, Error> take_signature_error(LKey lkey);
  // How many were found wrong, in all keys.
  [[nodiscard]] uint64_t signature_errors() const;
  // Copies between two ranges of this host's keys. Where they overlap, nobody knows which bytes.
  [[nodiscard]] Fault copy(PdId pd, const Sge& to, const Sge& from) const;

  // --- use from a work queue: a scatter/gather list seen as one range of bytes
  // Entries of length 0 are not looked at. Past the list's end is kOutOfBounds.
  // Checks every entry whole (access kLocalWrite when `write`), as a NIC does when it fetches the
  // entry.
  [[nodiscard]] Fault check_local(PdId pd, std::span<const Sge> list, bool write) const;
  // Adds payload bytes [offset, offset + n) of the list to `out`, which is not to be used after a
  // fault. `again`: they went out before; a signature is found wrong once, not each time a packet
  // is lost.
  [[nodiscard]] Fault gather(PdId pd, std::span<const Sge> list, uint64_t offset, uint32_t n,
                             Pieces& out, bool again = false) const;
  // The bytes come to lie at [offset, ...) of the list. `last`: these end the message: all other
  // bytes are stored before the very last one, with release order, for programs that spin on it
  // (move.h). Nothing is stored on a fault, kPage excepted.
  [[nodiscard]] Fault scatter(PdId pd, std::span<const Sge> list, uint64_t offset,
                              std::span<const uint8_t> bytes, bool last) const;

  // As much of [offset, offset + n) of the list, from its start, as can be read (`write`: and
  // written, by move.h) as plain memory; empty when that cannot be, or may not: gather and scatter
  // say why. Good until the domain's next change.
  [[nodiscard]] std::span<uint8_t> stretch(PdId pd, std::span<const Sge> list, uint64_t offset,
                                           uint64_t n, bool write) const;

  // --- use by a peer
  // `needed` is kRemoteWrite, kRemoteRead, kRemoteAtomic or a flush right; a length of 0 checks
  // nothing (IBA C9-88: the R_Key of a zero-length request is not checked).
  [[nodiscard]] Fault check_remote(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                   uint64_t length, uint32_t needed) const;
  [[nodiscard]] Fault remote_write(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                   std::span<const uint8_t> bytes, bool last) const;
  // `again`: as of gather(); and the memory may be gone, which is a fault (Options::repeats).
  [[nodiscard]] Fault remote_read(const RemoteUser& user, RKey rkey, RemoteAddr addr, uint32_t n,
                                  Pieces& out, bool again = false) const;
  // As stretch(), of one key.
  [[nodiscard]] std::span<uint8_t> remote_stretch(const RemoteUser& user, RKey rkey,
                                                  RemoteAddr addr, uint64_t n,
                                                  uint32_t needed) const;
  // kMisaligned unless both the address and the memory behind it are multiples of 8.
  // Sequentially consistent with the host's own CPU atomics; the value is in host order.
  // kCompareSwap stores `swap_add` if the old value is `compare`; kFetchAdd adds `swap_add`. Gives
  // the old value.
  [[nodiscard]] Result<uint64_t, Fault> remote_atomic(const RemoteUser& user, RKey rkey,
                                                      RemoteAddr addr, AtomicOp op,
                                                      uint64_t swap_add, uint64_t compare) const;
  // ATOMIC WRITE: 8 aligned bytes stored at once; needs kRemoteWrite.
  [[nodiscard]] Fault remote_atomic_write(const RemoteUser& user, RKey rkey, RemoteAddr addr,
                                          std::span<const uint8_t, 8> bytes) const;

  struct Usage {
    uint32_t pds = 0;
    uint32_t regions = 0;
    uint32_t windows = 0;
    uint32_t indirect_keys = 0;
  };
  [[nodiscard]] Usage usage() const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// Total bytes of a list.
[[nodiscard]] uint64_t total_bytes(std::span<const Sge> list);

}  // namespace verbena::memory
