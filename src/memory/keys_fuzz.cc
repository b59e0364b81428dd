// SPDX-License-Identifier: Apache-2.0
// Memory keys from hostile callers: layouts and signatures of any kind, over regions and over each
// other in circles, used by a peer and by work queues while they are configured, invalidated and
// destroyed. No byte may be touched that is not registered, nor one be written that may not.
//
// An input is a list of actions, each one byte (see do_action()) and its arguments, big-endian.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "base/random.h"
#include "memory/domain.h"

namespace verbena::memory {
namespace {

using Input = FuzzInput;

// On-demand memory, of which a part may be missing.
class Paged final : public Accessor {
 public:
  [[nodiscard]] Fault read(const uint8_t* from, std::span<uint8_t> to) override {
    if (missing) return Fault::kPage;
    std::copy_n(from, to.size(), to.begin());
    return Fault::kNone;
  }
  [[nodiscard]] Fault write(uint8_t* to, std::span<const uint8_t> from) override {
    if (missing) return Fault::kPage;
    std::ranges::copy(from, to);
    return Fault::kNone;
  }
  bool missing = false;
};

class Harness {
 public:
  Harness() {
    for (PdId& pd : pds_) pd = domain_.allocate_pd().value();
    for (size_t i = 0; i < kRegions; ++i) {
      memory_[i].assign(2 * kGuard + kLength, kGuardByte);
      add_region(i);
    }
  }

  void do_action(Input& in) {
    const uint8_t action = in.u8();
    switch (action % 16) {
      case 0:  create(in); break;
      case 1:  (void)domain_.destroy_key(any_lkey(in)); break;
      case 2:
      case 3:
      case 4:  configure(in); break;
      case 5:  read(in); break;
      case 6:  write(in); break;
      case 7:  atomic(in); break;
      case 8:  gather(in); break;
      case 9:  scatter(in); break;
      case 10: copy(in); break;
      case 11: invalidate(in); break;
      case 12: change_region(in); break;
      case 13: stretch(in); break;
      case 14: paged_.missing = !paged_.missing; break;
      default: (void)domain_.take_signature_error(any_lkey(in)); break;
    }
  }

  // Outside of the regions nothing changed, nor in the one that nobody may write.
  void check() const {
    for (size_t i = 0; i < kRegions; ++i) {
      const std::span<const uint8_t> all(memory_[i]);
      VERBENA_CHECK(quiet(all.first(kGuard)));
      VERBENA_CHECK(quiet(all.last(kGuard)));
      if (i == kReadOnly) VERBENA_CHECK(quiet(all));
    }
  }

 private:
  static constexpr size_t kRegions = 4;  // two of this PD, one on demand
  static constexpr size_t kReadOnly = 1;
  static constexpr size_t kOfOtherPd = 3;
  static constexpr size_t kKeys = 6;
  static constexpr size_t kGuard = 4096;
  static constexpr size_t kLength = 9000;
  static constexpr uint64_t kIova = 0x10000;
  static constexpr uint8_t kGuardByte = 0xa5;
  // Keys over keys make many small steps of a few bytes.
  static constexpr uint32_t kLongest = 700;

  static bool quiet(std::span<const uint8_t> bytes) {
    return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == kGuardByte; });
  }

  void add_region(size_t i) {
    const bool on_demand = i == 2;
    const uint32_t access =
        (i == kReadOnly ? uint32_t{kRemoteRead}
                        : kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kMwBind) |
        (on_demand ? uint32_t{kOnDemand} : 0);
    regions_[i] = domain_
                      .register_region(pds_[i == kOfOtherPd ? 1 : 0],
                                       {.base = memory_[i].data() + kGuard,
                                        .length = kLength,
                                        .iova = kIova,
                                        .access = access,
                                        .accessor = on_demand ? &paged_ : nullptr})
                      .value();
  }
  void change_region(Input& in) {
    const size_t i = in.u8() % kRegions;
    VERBENA_CHECK(domain_.deregister_region(regions_[i].lkey).has_value());
    add_region(i);
  }

  [[nodiscard]] RegionKeys any(Input& in) {
    const uint8_t number = in.u8();
    if (number % 16 < kKeys) return keys_[number % 16];
    if (number % 16 < kKeys + kRegions) return regions_[number % 16 - kKeys];
    const auto raw = static_cast<uint32_t>(in.take(4));
    return number % 16 < 14 ? keys_[0] : RegionKeys{LKey(raw), RKey(raw)};
  }
  [[nodiscard]] LKey any_lkey(Input& in) { return any(in).lkey; }
  // Mostly near the beginning of a key or a region.
  [[nodiscard]] static uint64_t any_addr(Input& in) {
    const uint8_t how = in.u8();
    if (how >= 0xf0) return in.take(8);
    return (how < 0x80 ? 0 : kIova) + in.u16() % (2 * kLength);
  }
  [[nodiscard]] RemoteUser any_user(Input& in) { return {pds_[in.u8() >= 0xf0], Qpn(1)}; }
  [[nodiscard]] PdId any_pd(Input& in) { return pds_[in.u8() >= 0xf0]; }

  void create(Input& in) {
    const size_t i = in.u8() % kKeys;
    const uint8_t flags = in.u8();
    if (keys_[i].lkey.value != 0) (void)domain_.destroy_key(keys_[i].lkey);
    const auto made = domain_.create_key(any_pd(in), {.max_entries = flags % 40u,
                                                      .signature = (flags & 0x40) != 0,
                                                      .remote_invalidate = (flags & 0x80) != 0});
    VERBENA_CHECK(made.has_value());
    keys_[i] = *made;
  }

  [[nodiscard]] static SignatureDomain any_domain(Input& in) {
    constexpr std::array<uint32_t, 5> kBlocks{512, 520, 4048, 4096, 4160};
    SignatureDomain domain;
    const uint8_t kind = in.u8();
    domain.kind = static_cast<SignatureKind>(kind >= 0xf8 ? kind : kind % 6);
    const uint8_t block = in.u8();
    domain.block =
        block >= 0xf8 ? static_cast<uint32_t>(in.take(4)) : kBlocks[block % kBlocks.size()];
    const uint8_t seed = in.u8();
    const uint64_t ones = domain.bytes() == 4   ? 0xffffffff
                          : is_dif(domain.kind) ? 0xffff
                                                : ~uint64_t{0};
    domain.seed = seed >= 0xf8 ? in.take(8) : seed % 2 == 0 ? 0 : ones;
    const uint8_t tags = in.u8();
    domain.app_tag = in.u16();
    domain.ref_tag = static_cast<uint32_t>(in.take(4));
    domain.ref_counts = (tags & 1) != 0;
    domain.app_escape = (tags & 2) != 0;
    domain.app_ref_escape = (tags & 4) != 0;
    return domain;
  }
  void configure(Input& in) {
    const LKey key = any_lkey(in);
    const uint8_t what = in.u8();
    KeyConfig config;
    if ((what & 1) == 0) config.access = kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic;
    if ((what & 0xc0) == 0xc0) config.access = in.u16();
    if ((what & 0x30) == 0x30) config.start = in.take(8);
    config.has_layout = (what & 2) == 0;
    config.interleaved = (what & 4) != 0;
    if (config.interleaved || (what & 0x80) != 0) config.repeat = in.u16();
    if (what == 0x87) config.repeat = in.take(8);
    const uint8_t blocks = in.u8() % 24;
    for (uint8_t i = 0; config.has_layout && i < blocks; ++i) {
      KeyBlock block;
      block.key = any_lkey(in);
      block.addr = any_addr(in);
      const uint16_t bytes = in.u16();
      block.bytes = bytes >= 0xfff0 ? static_cast<uint32_t>(in.take(4)) : bytes % kLength;
      block.skip = in.u8();
      config.blocks.push_back(block);
    }
    config.reset_signature = (what & 8) != 0;
    if ((what & 0x18) == 0x10) {
      config.signature.emplace();
      config.signature->memory = any_domain(in);
      config.signature->wire = in.u8() % 3 == 0 ? config.signature->memory : any_domain(in);
      config.signature->check_mask = in.u8();
      config.signature->copy_mask = in.u8();
    }
    const KeySpec spec{.max_entries = 40, .signature = true};
    (void)check_config(spec, config);
    (void)domain_.configure_key(key, any_pd(in), config);
  }

  void look(const Pieces& pieces) {
    for (const auto piece : pieces.list()) {
      for (const uint8_t byte : piece) seen_ = static_cast<uint8_t>(seen_ ^ byte);
      const auto* const end = piece.data() + piece.size();
      const bool staged = piece.data() >= room_.data() && end <= room_.data() + room_.size();
      VERBENA_CHECK(staged || is_registered(piece));
    }
  }
  [[nodiscard]] bool is_registered(std::span<const uint8_t> bytes) const {
    return std::ranges::any_of(memory_, [&](const std::vector<uint8_t>& memory) {
      const uint8_t* const begin = memory.data() + kGuard;
      return bytes.data() >= begin && bytes.data() + bytes.size() <= begin + kLength;
    });
  }

  void read(Input& in) {
    const RemoteUser user = any_user(in);
    const RKey key = any(in).rkey;
    const RemoteAddr at(any_addr(in));
    const uint32_t n = in.u16() % kLongest;
    Pieces pieces(room_);
    const bool again = in.u8() % 4 == 0;
    if (domain_.remote_read(user, key, at, n, pieces, again) != Fault::kNone) return;
    VERBENA_CHECK(pieces.bytes() == n);
    look(pieces);
  }
  [[nodiscard]] std::vector<uint8_t> any_bytes(Input& in) {
    std::vector<uint8_t> bytes(in.u16() % kLongest);
    const uint8_t first = in.u8();
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(first + i);
    return bytes;
  }
  void write(Input& in) {
    const RemoteUser user = any_user(in);
    const RKey key = any(in).rkey;
    const RemoteAddr at(any_addr(in));
    const std::vector<uint8_t> bytes = any_bytes(in);
    (void)domain_.remote_write(user, key, at, bytes, in.u8() % 2 == 0);
  }
  void atomic(Input& in) {
    const RemoteUser user = any_user(in);
    const RKey key = any(in).rkey;
    const RemoteAddr at(any_addr(in) & (in.u8() < 0xf0 ? ~uint64_t{7} : ~uint64_t{0}));
    if (in.u8() % 2 == 0) {
      (void)domain_.remote_atomic(user, key, at, AtomicOp::kFetchAdd, 1, 0);
    } else {
      (void)domain_.remote_atomic_write(user, key, at, std::array<uint8_t, 8>{1, 2, 3});
    }
  }
  [[nodiscard]] std::vector<Sge> any_list(Input& in) {
    std::vector<Sge> list(in.u8() % 4);
    for (Sge& sge : list) {
      sge.lkey = any_lkey(in);
      sge.addr = any_addr(in);
      sge.length = in.u16();
    }
    return list;
  }
  void gather(Input& in) {
    const auto list = any_list(in);
    const uint16_t offset = in.u16();
    const uint32_t n = in.u16() % kLongest;
    Pieces pieces(room_);
    if (domain_.gather(any_pd(in), list, offset, n, pieces) == Fault::kNone) look(pieces);
  }
  void scatter(Input& in) {
    const auto list = any_list(in);
    const uint16_t offset = in.u16();
    const std::vector<uint8_t> bytes = any_bytes(in);
    (void)domain_.scatter(any_pd(in), list, offset, bytes, in.u8() % 2 == 0);
  }
  void copy(Input& in) {
    const Sge to{any_addr(in), in.u16() % kLongest, any_lkey(in)};
    const Sge from{any_addr(in), in.u16() % kLongest, any_lkey(in)};
    (void)domain_.copy(any_pd(in), to, from);
  }
  void stretch(Input& in) {
    const bool write = in.u8() % 2 == 0;
    const auto list = any_list(in);
    const auto local = domain_.stretch(any_pd(in), list, in.u16(), in.u16(), write);
    VERBENA_CHECK(local.empty() || is_registered(local));
    const auto remote = domain_.remote_stretch(any_user(in), any(in).rkey, RemoteAddr(any_addr(in)),
                                               in.u16(), write ? kRemoteWrite : kRemoteRead);
    VERBENA_CHECK(remote.empty() || is_registered(remote));
    // What may be written is.
    if (write && !remote.empty()) remote.back() = remote.front() = 0x77;
    if (write && !local.empty()) local.back() = local.front() = 0x78;
  }
  void invalidate(Input& in) {
    const RKey key = any(in).rkey;
    if (in.u8() % 2 == 0) {
      (void)domain_.invalidate_local(key, any_pd(in));
    } else {
      (void)domain_.invalidate_remote(key, any_user(in));
    }
  }

  SeededRandom random_{1};
  // Small tables: they are made anew for each input.
  Domain domain_{
      random_,
      {.limits = {.max_pds = 2, .max_regions = 8, .max_windows = 1, .max_indirect_keys = 8}}};
  Paged paged_;
  std::array<PdId, 2> pds_;
  std::array<std::vector<uint8_t>, kRegions> memory_;
  std::array<RegionKeys, kRegions> regions_;
  std::array<RegionKeys, kKeys> keys_;
  std::array<uint8_t, kLongest> room_{};
  uint8_t seen_ = 0;
};

}  // namespace
}  // namespace verbena::memory

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::memory;
  // Longer ones say nothing new, and each action may walk far.
  constexpr int kMostActions = 48;
  Input in(data, size);
  Harness harness;
  for (int i = 0; i < kMostActions && !in.empty(); ++i) harness.do_action(in);
  harness.check();
  return 0;
}
