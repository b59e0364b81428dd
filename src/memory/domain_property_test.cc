// SPDX-License-Identifier: Apache-2.0
// Random histories of regions, windows and uses: the domain and a naive model give the same
// verdicts and move the same bytes, and no byte outside changes. One seed is one history.
#include <algorithm>
#include <array>
#include <set>

#include "memory/domain_model.h"
#include "memory/domain_test_fixture.h"

namespace verbena::memory {
namespace {

using Thing = DomainModel::Thing;

constexpr size_t kArenaBytes = 2048;
constexpr Limits kLimits{
    .max_pds = 3, .max_regions = 8, .max_windows = 6, .max_region_bytes = 1024};

// Which verdicts the histories led to, so that none of them is untested by accident.
std::set<Fault> faults_met;
std::set<Error> errors_met;

class History {
 public:
  explicit History(uint64_t seed)
      : random_(seed),
        domain_(random_, {.limits = kLimits, .strict_keys = seed % 2 == 0}),
        model_(kLimits, seed % 2 == 0) {
    for (size_t i = 0; i < kArenaBytes; ++i) arena_[i] = static_cast<uint8_t>(random_.next());
    std::ranges::copy(arena_, expected_.begin());
  }

  void step() {
    switch (random_.below(12)) {
      case 0:  pds(); break;
      case 1:  register_region(); break;
      case 2:  change_region(); break;
      case 3:  windows(); break;
      case 4:
      case 5:  bind(); break;
      case 6:  invalidate(); break;
      case 7:  remote_write(); break;
      case 8:  remote_read(); break;
      case 9:  remote_atomic(); break;
      case 10: gather(); break;
      default: scatter(); break;
    }
    ASSERT_TRUE(std::ranges::equal(arena_, expected_)) << "a byte changed that should not have";
    const auto usage = domain_.usage();
    ASSERT_EQ(usage.pds, model_.pds.size());
    ASSERT_EQ(usage.regions + usage.windows, model_.things.size());
  }

 private:
  bool one_in(uint64_t n) { return random_.below(n) == 0; }
  template <typename T, typename E>
  bool agree(const Result<T, E>& result, const std::optional<E>& expected) {
    EXPECT_EQ(result.has_value(), !expected.has_value());
    if (result.has_value() || !expected) return result.has_value() && !expected;
    EXPECT_EQ(result.error(), *expected);
    if constexpr (std::is_same_v<E, Error>) errors_met.insert(*expected);
    if constexpr (std::is_same_v<E, Fault>) faults_met.insert(*expected);
    return false;
  }
  bool agree(Fault got, Fault expected) {
    EXPECT_EQ(got, expected);
    faults_met.insert(expected);
    return got == Fault::kNone && expected == Fault::kNone;
  }

  PdId any_pd() {
    if (model_.pds.empty() || one_in(30)) return PdId{static_cast<uint32_t>(random_.below(20))};
    return PdId{std::next(model_.pds.begin(), pick(model_.pds.size()))->first};
  }
  long pick(size_t size) { return static_cast<long>(random_.below(size)); }
  Thing* any_thing() {
    return model_.things.empty() ? nullptr
                                 : &*std::next(model_.things.begin(), pick(model_.things.size()));
  }
  // Mostly a key that is or was one, of any kind, sometimes with a bit turned.
  uint32_t any_key(bool remote) {
    if (!stale_.empty() && one_in(15)) return stale_[random_.below(stale_.size())];
    const Thing* const thing = any_thing();
    if (thing == nullptr) return static_cast<uint32_t>(random_.next());
    uint32_t key = remote != one_in(15) ? thing->rkey : thing->lkey;
    if (one_in(30)) key ^= 1u << random_.below(32);
    return key;
  }
  PdId pd_near(const Thing* thing) { return thing == nullptr || one_in(10) ? any_pd() : thing->pd; }
  Qpn qpn_near(const Thing* thing) {
    return thing == nullptr || one_in(8) ? Qpn{static_cast<uint32_t>(random_.below(3))}
                                         : thing->qpn;
  }
  // Mostly inside, sometimes over an edge, sometimes far off.
  uint64_t addr_near(const Thing* thing) {
    if (thing == nullptr || one_in(20)) return random_.next();
    return thing->start + random_.below(thing->length + 12) - (one_in(8) ? 6 : 0);
  }
  uint32_t length_near(const Thing* thing) {
    const uint64_t most = thing == nullptr ? 64 : thing->length + 2;
    return static_cast<uint32_t>(random_.below(one_in(3) ? most : 24));
  }
  uint32_t any_access(uint32_t of) { return static_cast<uint32_t>(random_.next()) & of; }
  std::vector<uint8_t> any_bytes(size_t n) {
    std::vector<uint8_t> bytes(n);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.next());
    return bytes;
  }
  void expect_bytes(const uint8_t* at, std::span<const uint8_t> bytes) {
    std::ranges::copy(bytes, expected_.begin() + (at - arena_.data()));
  }

  void pds() {
    if (one_in(2)) {
      const auto pd = domain_.allocate_pd();
      const bool full = model_.pds.size() == kLimits.max_pds;
      if (agree(pd, full ? std::optional(Error::kTooMany) : std::nullopt)) {
        EXPECT_TRUE(model_.pds.emplace(pd->value, true).second);
      }
      return;
    }
    const PdId pd = any_pd();
    std::optional<Error> expected;
    if (!model_.pds.contains(pd.value)) {
      expected = Error::kNoSuchPd;
    } else if (model_.pd_in_use(pd)) {
      expected = Error::kBusy;
    }
    if (agree(domain_.deallocate_pd(pd), expected)) model_.pds.erase(pd.value);
  }

  RegionSpec any_spec() {
    RegionSpec spec;
    spec.access = any_access(kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kMwBind);
    if (!one_in(10) && one_in(2)) spec.access |= kLocalWrite | kMwBind;
    if (one_in(5)) {
      spec.access |= kOnDemand;
      spec.accessor = &accessor_;
    }
    const size_t at = random_.below(kArenaBytes - 1100);
    spec.base = arena_.data() + (one_in(4) ? at : at & ~size_t{7});
    spec.length = one_in(20) ? 1025 : random_.below(300);
    spec.iova = one_in(4)   ? reinterpret_cast<uint64_t>(spec.base)
                : one_in(8) ? ~uint64_t{0} - random_.below(400)
                            : random_.below(64) * 8;
    if (one_in(5)) {
      spec.access |= kZeroBased;
      if (!one_in(4)) spec.iova = 0;
    }
    return spec;
  }
  void fill(Thing& thing, PdId pd, const RegionSpec& spec, const RegionKeys& keys) {
    const bool remote = (spec.access & (kRemoteRead | kRemoteWrite | kRemoteAtomic)) != 0;
    EXPECT_NE(keys.lkey.value, 0u);
    EXPECT_EQ(keys.rkey.value != 0, remote);
    EXPECT_EQ(keys.rkey.value == keys.lkey.value, remote && !model_.strict());
    thing = {.pd = pd,
             .lkey = keys.lkey.value,
             .rkey = keys.rkey.value,
             .access = spec.access,
             .start = spec.iova,
             .length = spec.length,
             .memory = spec.base,
             .accessor = spec.accessor};
  }
  void register_region() {
    const PdId pd = any_pd();
    const RegionSpec spec = any_spec();
    std::optional<Error> expected = model_.refuses(pd, spec);
    if (!expected && model_.regions_full()) expected = Error::kTooMany;
    const auto keys = domain_.register_region(pd, spec);
    if (agree(keys, expected)) fill(model_.things.emplace_back(), pd, spec, *keys);
  }
  void retire(const Thing& thing) {
    if (thing.lkey != 0) stale_.push_back(thing.lkey);
    if (thing.rkey != 0) stale_.push_back(thing.rkey);
  }
  void change_region() {
    const LKey lkey{any_key(false)};
    Thing* const region = model_.by_lkey(lkey);
    const bool busy = region != nullptr && model_.windows_of(region) > 0;
    std::optional<Error> expected;
    if (one_in(2)) {
      if (region == nullptr) {
        expected = Error::kNoSuchKey;
      } else if (busy) {
        expected = Error::kBusy;
      }
      if (!agree(domain_.deregister_region(lkey), expected)) return;
      retire(*region);
      model_.things.remove_if([&](const Thing& thing) { return &thing == region; });
      return;
    }
    const PdId pd = any_pd();
    const RegionSpec spec = any_spec();
    expected = region == nullptr ? Error::kNoSuchKey : model_.refuses(pd, spec);
    if (!expected && busy) expected = Error::kBusy;
    const auto keys = domain_.reregister_region(lkey, pd, spec);
    if (!agree(keys, expected)) return;
    EXPECT_NE(keys->lkey, lkey);
    retire(*region);
    fill(*region, pd, spec, *keys);
  }

  void windows() {
    if (one_in(2)) {
      const PdId pd = any_pd();
      const int type = one_in(2) ? 1 : 2;
      std::optional<Error> expected;
      if (!model_.pds.contains(pd.value)) {
        expected = Error::kNoSuchPd;
      } else if (model_.windows_full()) {
        expected = Error::kTooMany;
      }
      const auto rkey = domain_.allocate_window(pd, static_cast<WindowType>(type));
      if (!agree(rkey, expected)) return;
      model_.things.push_back({.window = type, .pd = pd, .rkey = rkey->value});
      return;
    }
    const RKey rkey{any_key(true)};
    const Thing* const window = model_.by_window(rkey);
    if (agree(domain_.deallocate_window(rkey),
              window != nullptr ? std::nullopt : std::optional(Error::kNoSuchKey))) {
      retire(*window);
      model_.things.remove_if([&](const Thing& thing) { return &thing == window; });
    }
  }

  void bind() {
    const RKey rkey{any_key(true)};
    Thing* const window = model_.by_window(rkey);
    const LKey lkey{any_key(false)};
    Thing* const region = model_.by_lkey(lkey);
    const WindowBind with{
        .region = lkey,
        .addr = addr_near(region),
        .length = one_in(10) ? 0 : length_near(region),
        .access = any_access(kRemoteRead | kRemoteWrite | kRemoteAtomic |
                             (one_in(3) ? uint32_t{kZeroBased} : 0) |
                             (one_in(20) ? uint32_t{kLocalWrite} : 0)),
        .tag = one_in(3) ? std::nullopt : std::optional(static_cast<uint8_t>(random_.next()))};
    const RemoteUser user{.pd = pd_near(window),
                          .qpn = Qpn{static_cast<uint32_t>(random_.below(3))}};
    const Fault expected = model_.bind(window, region, user, with);
    const auto bound = domain_.bind_window(rkey, user, with);
    if (!agree(bound, expected == Fault::kNone ? std::nullopt : std::optional(expected))) return;
    const bool type2 = window->window == 2;
    const auto tag = with.tag ? *with.tag : static_cast<uint8_t>(type2 ? 0 : window->rkey + 1);
    EXPECT_EQ(bound->value, window->rkey / 256 * 256 + tag);
    if (bound->value != window->rkey) stale_.push_back(window->rkey);
    *window = {.window = window->window, .pd = window->pd, .rkey = bound->value};
    if (with.length == 0) return;
    window->bound = true;
    window->qpn = type2 ? user.qpn : Qpn{};
    window->access = with.access;
    window->start = (with.access & kZeroBased) != 0 ? 0 : with.addr;
    window->length = with.length;
    window->memory = region->memory + (with.addr - region->start);
    window->region = region;
  }

  void invalidate() {
    const RKey rkey{any_key(true)};
    Thing* const window = model_.by_rkey(rkey);
    const RemoteUser user{.pd = pd_near(window), .qpn = qpn_near(window)};
    const bool local = one_in(2);
    const Fault expected = DomainModel::invalidate(window, user.pd, local ? nullptr : &user.qpn);
    const Fault got =
        local ? domain_.invalidate_local(rkey, user.pd) : domain_.invalidate_remote(rkey, user);
    if (!agree(got, expected)) return;
    *window = {.window = 2, .pd = window->pd, .rkey = window->rkey};
  }

  struct RemoteCase {
    RKey rkey;
    RemoteUser user;
    uint64_t addr;
    const Thing* thing;
  };
  RemoteCase any_remote() {
    const RKey rkey{any_key(true)};
    const Thing* const thing = model_.by_rkey(rkey);
    return {rkey, {.pd = pd_near(thing), .qpn = qpn_near(thing)}, addr_near(thing), thing};
  }
  DomainModel::Verdict expected(const RemoteCase& use, uint64_t n, uint32_t needed) {
    if (n == 0) return {};
    return model_.use(use.thing, use.user.pd, use.user.qpn, needed, use.addr, n);
  }
  void remote_write() {
    const RemoteCase use = any_remote();
    const auto bytes = any_bytes(length_near(use.thing));
    const auto verdict = expected(use, bytes.size(), kRemoteWrite);
    const RemoteAddr at{use.addr};
    EXPECT_EQ(domain_.check_remote(use.user, use.rkey, at, bytes.size(), kRemoteWrite),
              verdict.fault);
    const Fault got = domain_.remote_write(use.user, use.rkey, at, bytes, one_in(2));
    if (agree(got, verdict.fault) && !bytes.empty()) expect_bytes(verdict.memory, bytes);
  }
  void remote_read() {
    const RemoteCase use = any_remote();
    const uint32_t n = length_near(use.thing);
    const auto verdict = expected(use, n, kRemoteRead);
    Pieces pieces(staging_);
    const Fault got = domain_.remote_read(use.user, use.rkey, RemoteAddr{use.addr}, n, pieces);
    if (agree(got, verdict.fault)) expect_payload(pieces, {verdict.memory, n});
  }
  void remote_atomic() {
    RemoteCase use = any_remote();
    if (!one_in(4)) use.addr &= ~uint64_t{7};
    const bool write = one_in(3);
    auto verdict = expected(use, 8, write ? kRemoteWrite : kRemoteAtomic);
    const auto place = reinterpret_cast<uintptr_t>(verdict.memory);
    if (verdict.fault == Fault::kNone && (use.addr % 8 != 0 || place % 8 != 0)) {
      verdict.fault = Fault::kMisaligned;
    }
    const RemoteAddr at{use.addr};
    if (write) {
      const auto bytes = any_bytes(8);
      const Fault got = domain_.remote_atomic_write(use.user, use.rkey, at,
                                                    std::span<const uint8_t, 8>(bytes.data(), 8));
      if (agree(got, verdict.fault)) expect_bytes(verdict.memory, bytes);
      return;
    }
    uint64_t before = 0;
    if (verdict.fault == Fault::kNone) std::memcpy(&before, verdict.memory, 8);
    const AtomicOp op = one_in(2) ? AtomicOp::kCompareSwap : AtomicOp::kFetchAdd;
    const uint64_t swap_add = random_.next();
    const uint64_t compare = one_in(2) ? before : random_.next();
    const auto old = domain_.remote_atomic(use.user, use.rkey, at, op, swap_add, compare);
    if (!agree(old, verdict.fault == Fault::kNone ? std::nullopt : std::optional(verdict.fault))) {
      return;
    }
    EXPECT_EQ(*old, before);
    uint64_t after = before + swap_add;
    if (op == AtomicOp::kCompareSwap) after = before == compare ? swap_add : before;
    uint8_t bytes[8];
    std::memcpy(bytes, &after, 8);
    expect_bytes(verdict.memory, bytes);
  }

  std::vector<Sge> any_list() {
    std::vector<Sge> list(random_.below(one_in(10) ? 33 : 4));
    for (Sge& sge : list) {
      sge.lkey = LKey{any_key(false)};
      const Thing* const region = model_.by_lkey(sge.lkey);
      sge.addr = addr_near(region);
      sge.length = length_near(region);
    }
    return list;
  }
  // The list byte by byte: the fault of the first byte that has one, or where each byte lies.
  Fault expected(PdId pd, const std::vector<Sge>& list, uint64_t offset, uint64_t n,
                 uint32_t needed, std::vector<uint8_t*>& bytes) {
    uint64_t at = 0;
    for (const Sge& sge : list) {
      for (uint64_t i = 0; i < sge.length; ++i, ++at) {
        if (at < offset || at >= offset + n) continue;
        const auto verdict =
            model_.use(model_.by_lkey(sge.lkey), pd, Qpn{}, needed, sge.addr, i + 1);
        if (verdict.fault != Fault::kNone) return verdict.fault;
        bytes.push_back(verdict.memory + i);
      }
    }
    return at >= offset + n ? Fault::kNone : Fault::kOutOfBounds;
  }
  struct LocalCase {
    std::vector<Sge> list;
    PdId pd;
    uint64_t offset;
    uint32_t n;
  };
  LocalCase any_local() {
    LocalCase use{any_list(), {}, 0, 0};
    use.pd = use.list.empty() ? any_pd() : pd_near(model_.by_lkey(use.list[0].lkey));
    const uint64_t total = total_bytes(use.list);
    use.offset = random_.below(total + (one_in(10) ? 3 : 1));
    use.n = static_cast<uint32_t>(random_.below(total - std::min(total, use.offset) + 2));
    return use;
  }
  void gather() {
    const LocalCase use = any_local();
    std::vector<uint8_t*> where;
    const Fault fault = expected(use.pd, use.list, use.offset, use.n, 0, where);
    Pieces pieces(staging_);
    if (!agree(domain_.gather(use.pd, use.list, use.offset, use.n, pieces), fault)) return;
    std::vector<uint8_t> bytes(where.size());
    for (size_t i = 0; i < where.size(); ++i) bytes[i] = *where[i];
    expect_payload(pieces, bytes);
  }
  void scatter() {
    const LocalCase use = any_local();
    std::vector<uint8_t*> where;
    const uint64_t total = total_bytes(use.list);
    EXPECT_EQ(domain_.check_local(use.pd, use.list, true),
              expected(use.pd, use.list, 0, total, kLocalWrite, where));
    where.clear();
    const Fault fault = expected(use.pd, use.list, use.offset, use.n, kLocalWrite, where);
    const auto bytes = any_bytes(use.n);
    const Fault got = domain_.scatter(use.pd, use.list, use.offset, bytes, one_in(2));
    if (!agree(got, fault)) return;
    for (size_t i = 0; i < bytes.size(); ++i) expect_bytes(where[i], {&bytes[i], 1});
  }
  void expect_payload(const Pieces& pieces, std::span<const uint8_t> bytes) {
    std::vector<uint8_t> got;
    for (const auto& piece : pieces.list()) got.insert(got.end(), piece.begin(), piece.end());
    EXPECT_EQ(pieces.bytes(), bytes.size());
    EXPECT_TRUE(std::ranges::equal(got, bytes));
  }

  SeededRandom random_;
  FakeAccessor accessor_;
  Domain domain_;
  DomainModel model_;
  std::vector<uint32_t> stale_;
  alignas(64) std::array<uint8_t, kArenaBytes> arena_{};
  std::array<uint8_t, kArenaBytes> expected_{};
  std::array<uint8_t, 16384> staging_{};
};

TEST(DomainPropertyTest, AgreesWithTheModel) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    History history(seed);
    for (int step = 0; step < 1000 && !testing::Test::HasFailure(); ++step) history.step();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(faults_met.size(), 8u);  // all but kPage, which has its own tests
  EXPECT_EQ(errors_met.size(), 5u);
}

}  // namespace
}  // namespace verbena::memory
