// SPDX-License-Identifier: Apache-2.0
// Random histories of indirect keys over regions and over each other: what may be used gives the
// model's bytes, what may not gives the model's fault, and no byte changes that should not have.
// One seed is one history.
#include <array>
#include <map>
#include <set>
#include <string>

#include "memory/domain_test_fixture.h"
#include "memory/indirect_model.h"

namespace verbena::memory {
namespace {

using Bytes = std::vector<uint8_t>;

// What the histories came to, so that nothing is untested by accident.
std::set<Fault> key_faults_met;
std::map<std::string, int> uses_met;

class KeyHistory {
 public:
  explicit KeyHistory(uint64_t seed) : random_(seed) {
    pds_ = {domain_.allocate_pd().value(), domain_.allocate_pd().value()};
    for (uint8_t& byte : arena_) byte = static_cast<uint8_t>(random_.next());
    model_.memory = arena_;
    model_.address = reinterpret_cast<uintptr_t>(arena_.data());
    model_.page_bytes = FakeAccessor::kPageBytes;
    for (size_t i = 0; i < kRegions; ++i) add_region(i);
    for (size_t i = 0; i < kKeys; ++i) create_key(i);
    for (size_t i = 0; i < 3 * kKeys; ++i) configure();
  }

  void step() {
    switch (draw(20)) {
      case 0:  invalidate(); break;
      case 1:  one_in(2) ? destroy_key() : change_page(); break;
      case 2:  one_in(10) ? change_region() : configure(); break;
      case 3:
      case 4:
      case 5:
      case 6:  configure(); break;
      case 7:
      case 8:
      case 9:
      case 10: write(); break;
      case 11:
      case 12: gather(); break;
      default: read(); break;
    }
    ASSERT_EQ(arena_, model_.memory) << "a byte changed that should not have, or has not";
  }

 private:
  using Thing = IndirectModel::Thing;

  static constexpr size_t kRegions = 5;
  static constexpr size_t kKeys = 10;
  static constexpr size_t kRegionBytes = 6000;
  static constexpr size_t kGap = 300;  // between regions: nobody's
  static constexpr size_t kOnDemand1 = 1;
  static constexpr size_t kReadOnly = 2;
  static constexpr size_t kForeign = 3;

  uint64_t draw(uint64_t n) { return random_.next() % n; }
  bool one_in(uint64_t n) { return draw(n) == 0; }

  // --- the things
  void add_region(size_t i) {
    Thing thing{.pd = pds_[i == kForeign ? 1 : 0]};
    thing.start = one_in(2) ? 0 : random_.next() >> 1;
    thing.offset = kGap + i * (kRegionBytes + kGap);
    thing.length = kRegionBytes;
    thing.on_demand = i == kOnDemand1;
    thing.access =
        i == kReadOnly ? uint32_t{kRemoteRead} : kLocalWrite | kRemoteRead | kRemoteWrite;
    regions_[i] =
        domain_
            .register_region(thing.pd,
                             {.base = arena_.data() + thing.offset,
                              .length = thing.length,
                              .iova = thing.start,
                              .access = thing.access | (thing.on_demand ? uint32_t{kOnDemand} : 0),
                              .accessor = thing.on_demand ? &accessor_ : nullptr})
            .value();
    model_.things[regions_[i].lkey.value] = thing;
  }
  void change_region() {
    const size_t i = draw(kRegions);
    ASSERT_TRUE(domain_.deregister_region(regions_[i].lkey));
    model_.things.erase(regions_[i].lkey.value);
    add_region(i);
  }
  void create_key(size_t i) {
    const PdId pd = pds_[one_in(15) ? 1 : 0];
    keys_[i] = domain_.create_key(pd, {.max_entries = 5000, .signature = true}).value();
    model_.things[keys_[i].lkey.value] = Thing{.pd = pd, .usable = false, .is_key = true};
  }
  void destroy_key() {
    const size_t i = draw(kKeys);
    ASSERT_TRUE(domain_.destroy_key(keys_[i].lkey));
    model_.things.erase(keys_[i].lkey.value);
    create_key(i);
  }
  void invalidate() {
    const RegionKeys key = keys_[draw(kKeys)];
    Thing& thing = model_.things.at(key.lkey.value);
    const Fault wanted = thing.usable ? Fault::kNone : Fault::kWrongState;
    ASSERT_EQ(domain_.invalidate_local(key.rkey, thing.pd), wanted);
    thing = Thing{.pd = thing.pd, .usable = false, .is_key = true};
  }
  void change_page() {
    const size_t at = kGap + kOnDemand1 * (kRegionBytes + kGap) + draw(kRegionBytes);
    const auto page = reinterpret_cast<uintptr_t>(arena_.data() + at) / FakeAccessor::kPageBytes;
    if (one_in(3)) {
      accessor_ = FakeAccessor();
      model_.missing_pages.clear();
    } else {
      accessor_.remove_page(arena_.data() + at);
      model_.missing_pages.insert(page);
    }
  }

  // --- layouts
  // Mostly a region or a key further down, so that there is an end to it.
  uint32_t any_under(size_t i) {
    const bool region = i == 0 || one_in(3);
    if (region && !one_in(30)) return regions_[draw(2)].lkey.value;
    if (region) return regions_[draw(kRegions)].lkey.value;
    return keys_[one_in(200) ? draw(kKeys) : draw(i)].lkey.value;
  }
  KeyBlock any_block(uint32_t under, uint64_t most, uint64_t reach) {
    const Thing& thing = model_.things.at(under);
    KeyBlock block{.addr = thing.start, .bytes = 0, .skip = 0, .key = LKey(under)};
    const uint64_t length = thing.bytes();
    block.bytes = static_cast<uint32_t>(1 + draw(most));
    const uint64_t needs = block.bytes * reach;
    block.addr += length > needs ? draw(length - needs + 1) : 0;
    if (length <= needs && reach == 1 && length != 0 && !one_in(10)) {
      block.bytes = static_cast<uint32_t>(length);
    }
    if (one_in(150)) block.addr += draw(8000);
    return block;
  }
  SignatureDomain any_domain() {
    SignatureDomain domain;
    domain.kind = static_cast<SignatureKind>(draw(6));
    if (!domain.present()) return {};
    domain.block = one_in(4) ? 4096 : one_in(2) ? 512 : 520;
    domain.seed = one_in(2)                              ? 0
                  : domain.kind == SignatureKind::kCrc64 ? ~uint64_t{0}
                  : is_dif(domain.kind)                  ? 0xffff
                                                         : 0xffffffff;
    domain.app_tag = static_cast<uint16_t>(random_.next());
    domain.ref_tag = static_cast<uint32_t>(random_.next());
    domain.ref_counts = one_in(2);
    return domain;
  }
  void configure() {
    const size_t i = draw(kKeys);
    Thing& thing = model_.things.at(keys_[i].lkey.value);
    KeyConfig config;
    config.has_layout = !one_in(10);
    if (config.has_layout) draw_layout(i, config);
    if (one_in(2) || !thing.usable) {
      config.access = kLocalWrite | kRemoteRead | kRemoteWrite;
      if (one_in(20)) config.access = one_in(2) ? uint32_t{kRemoteRead} : uint32_t{kRemoteWrite};
    }
    if (one_in(4)) config.start = random_.next() >> draw(60);
    if (one_in(3)) {
      config.signature.emplace();
      config.signature->memory = any_domain();
      config.signature->wire = one_in(3) ? config.signature->memory : any_domain();
      config.signature->check_mask = 0xff;
      config.signature->copy_mask =
          default_copy_mask(config.signature->memory, config.signature->wire);
      if (!config.signature->memory.present() && !config.signature->wire.present()) {
        config.signature.reset();
      }
    } else {
      config.reset_signature = one_in(2);
    }
    ASSERT_EQ(domain_.configure_key(keys_[i].lkey, thing.pd, config), Fault::kNone);
    if (config.access) thing.access = *config.access;
    if (config.start) thing.start = *config.start;
    if (config.has_layout) {
      thing.blocks = config.blocks;
      thing.repeat = config.repeat;
      thing.usable = true;
    }
    if (config.signature) {
      thing.signature = config.signature;
    } else if (config.reset_signature) {
      thing.signature.reset();
    }
  }
  void draw_layout(size_t i, KeyConfig& config) {
    if (one_in(4)) {
      config.interleaved = true;
      config.repeat = 1 + draw(one_in(3) ? 200 : 8);
      for (uint64_t n = 1 + draw(3); n > 0; --n) {
        KeyBlock block = any_block(any_under(i), 600 / config.repeat + 2, 2 * config.repeat);
        block.skip = static_cast<uint32_t>(draw(block.bytes + 1));
        config.blocks.push_back(block);
      }
      ++uses_met["interleave"];
      return;
    }
    const bool many = one_in(8);
    const uint64_t entries = many ? 1000 + draw(3000) : 1 + draw(8);
    for (uint64_t n = 0; n < entries; ++n) {
      // Many of one key, so that most of them can be used.
      const uint32_t under = many && n > 0 ? config.blocks[0].key.value : any_under(i);
      config.blocks.push_back(any_block(under, many ? 4 : 2500, 1));
    }
    if (many) ++uses_met["thousands of entries"];
  }

  // --- uses
  struct Target {
    RegionKeys key;
    uint64_t addr;
    uint64_t n;
  };
  Target any_target(bool whole) {
    const RegionKeys key = keys_[draw(kKeys)];
    const Thing& thing = model_.things.at(key.lkey.value);
    const uint64_t length = thing.bytes();
    if (whole) return {key, thing.start, length};
    const uint64_t at = draw(length + 1);
    uint64_t n = 1 + draw(std::min<uint64_t>(length - at + 1, 4096));
    if (one_in(20)) n += 2;
    return {key, thing.start + at - (one_in(60) ? 1 : 0), std::min<uint64_t>(n, 4096)};
  }
  RemoteUser any_user() { return {pds_[one_in(40) ? 1 : 0], Qpn(9)}; }

  void count(const RegionKeys& key, const char* what, Fault fault) {
    if (fault != Fault::kNone) return;
    ++uses_met[what];
    const Thing& thing = model_.things.at(key.lkey.value);
    if (thing.signature) ++uses_met["through a signed key"];
    for (const KeyBlock& block : thing.blocks) {
      const auto under = model_.things.find(block.key.value);
      if (under == model_.things.end() || !under->second.is_key) continue;
      ++uses_met[under->second.signature ? "a signed key under a list" : "a key under a key"];
      if (thing.signature) ++uses_met["a list under a signed key"];
      return;
    }
  }
  void read() {
    const Target target = any_target(false);
    const RemoteUser user = any_user();
    const uint32_t rkey = target.key.rkey.value;
    Bytes wanted;
    const Fault fault = model_.read({rkey, user.pd, kRemoteRead, target.addr, target.n}, wanted);
    const bool uncertain = model_.uncertain;
    Bytes got;
    Fault met = Fault::kNone;
    // In cuts, or at once.
    const uint64_t cut = one_in(2) ? target.n : 1 + draw(700);
    for (uint64_t at = 0; at < target.n && met == Fault::kNone;) {
      const uint64_t n = std::min(cut, target.n - at);
      Pieces pieces(staging_);
      met = domain_.remote_read(user, target.key.rkey, RemoteAddr(target.addr + at),
                                static_cast<uint32_t>(n), pieces);
      if (met != Fault::kNone) break;
      for (const auto piece : pieces.list()) got.insert(got.end(), piece.begin(), piece.end());
      at += n;
    }
    if (!uncertain) {
      // Cuts may come to another fault first.
      EXPECT_EQ(met == Fault::kNone, fault == Fault::kNone);
      if (cut == target.n) {
        EXPECT_EQ(met, fault);
        key_faults_met.insert(fault);
      }
      if (fault == Fault::kNone) {
        EXPECT_EQ(got, wanted);
      }
    }
    count(target.key, "reads", met);
  }
  void gather() {
    std::array<Sge, 2> list;
    Bytes wanted;
    Fault fault = Fault::kNone;
    bool uncertain = false;
    for (Sge& sge : list) {
      const Target target = any_target(false);
      sge = {target.addr, static_cast<uint32_t>(target.n), target.key.lkey};
      if (fault != Fault::kNone) continue;
      fault = model_.read({sge.lkey.value, pds_[0], 0, sge.addr, sge.length}, wanted);
      uncertain = uncertain || model_.uncertain;
    }
    Pieces pieces(staging_);
    const auto total = static_cast<uint32_t>(total_bytes(list));
    const Fault met = domain_.gather(pds_[0], list, 0, total, pieces);
    if (uncertain) return;
    ASSERT_EQ(met, fault);
    if (fault != Fault::kNone) return;
    Bytes got;
    for (const auto piece : pieces.list()) got.insert(got.end(), piece.begin(), piece.end());
    EXPECT_EQ(got, wanted);
    ++uses_met["lists gathered"];
  }
  // All of a key's range, front to back, in random cuts.
  void write() {
    const bool whole = one_in(2);
    const Target target = any_target(whole);
    if (target.n == 0) return;
    const RemoteUser user = any_user();
    const uint32_t rkey = target.key.rkey.value;
    Bytes bytes(target.n);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.next());
    const Bytes before = model_.memory;
    bool modelled = false;
    const Fault fault =
        model_.write({rkey, user.pd, kRemoteWrite, target.addr, target.n}, bytes, modelled);
    const bool uncertain = model_.uncertain;
    if (!modelled || uncertain) {
      model_.memory = before;
      return;
    }
    const uint64_t cut = fault == Fault::kNone && one_in(2) ? 1 + draw(1500) : target.n;
    Fault met = Fault::kNone;
    for (uint64_t at = 0; at < target.n && met == Fault::kNone; at += cut) {
      const auto part = std::span(bytes).subspan(at, std::min(cut, target.n - at));
      met = domain_.remote_write(user, target.key.rkey, RemoteAddr(target.addr + at), part, false);
    }
    EXPECT_EQ(met, fault);
    key_faults_met.insert(fault);
    count(target.key, "writes", met);
  }
  SeededRandom random_;
  Domain domain_{random_, {}};
  std::array<PdId, 2> pds_;
  Bytes arena_ = Bytes(kGap + kRegions * (kRegionBytes + kGap));
  Bytes staging_ = Bytes(3 * 4096);
  FakeAccessor accessor_;
  IndirectModel model_;
  std::array<RegionKeys, kRegions> regions_;
  std::array<RegionKeys, kKeys> keys_;
};

TEST(IndirectProperty, HistoriesAsTheModelHasThem) {
  constexpr uint64_t kSeeds = 80;
  constexpr int kSteps = 150;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    KeyHistory history(seed);
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_NO_FATAL_FAILURE(history.step()) << "step " << i;
      ASSERT_FALSE(::testing::Test::HasFailure()) << "step " << i;
    }
  }
  for (const Fault fault : {Fault::kNone, Fault::kNoSuchKey, Fault::kWrongState, Fault::kWrongPd,
                            Fault::kNoAccess, Fault::kOutOfBounds, Fault::kPage}) {
    EXPECT_TRUE(key_faults_met.contains(fault)) << "never met: " << fault;
  }
  for (const char* use : {"reads", "writes", "lists gathered", "through a signed key",
                          "a key under a key", "a signed key under a list",
                          "a list under a signed key", "interleave", "thousands of entries"}) {
    EXPECT_GE(uses_met[use], 20) << use;
  }
}

}  // namespace
}  // namespace verbena::memory
