// SPDX-License-Identifier: Apache-2.0
#include "expectation.h"

#include <algorithm>

#include <fmt/format.h>

#include "compare.h"
#include "operation.h"
#include "store/crc_parts.h"
#include "store/superblock.h"

namespace verbena::store::trial {
namespace {

// A range must be read as it is, or fail for the first lost chunk in it.
std::string check_range(const Store& store, const Truth& truth, ObjectId id, uint64_t offset,
                        uint64_t length) {
  std::vector<uint8_t> bytes(length, 0xee);
  uint32_t derived = 0;
  const auto got = store.read(id, offset, bytes, &derived);
  const std::vector<uint8_t> expected = truth.model.read(id, offset, length);
  const auto lost = truth.lost.lower_bound({id, offset / kDataBytes});
  const bool hit = !expected.empty() && lost != truth.lost.end() && lost->first.first == id &&
                   lost->first.second * kDataBytes < offset + expected.size();
  const std::string where = fmt::format("object {}, {} bytes at {}: ", text(id), length, offset);
  if (hit) {
    if (got) return where + "can be read in spite of the damage";
    const std::string what = check_damage(got.error(), id, lost->first.second, lost->second);
    return what.empty() ? what : where + what;
  }
  if (!got) return where + got.error().what;
  bytes.resize(*got);
  if (bytes != expected) return where + "WRONG BYTES";
  return derived == crc(bytes) ? "" : where + "the derived CRC is not that of the bytes";
}

// For a device: either refused, or the CRC tells.
std::string check_prepared(const Store& store, const Truth& truth, ObjectId id, uint64_t offset,
                           uint64_t length) {
  const auto prepared = store.prepare_read(id, offset, length);
  if (!prepared) return prepared.error().code == Code::kDamaged ? "" : prepared.error().what;
  const std::vector<uint8_t> bytes = gather(prepared->pieces());
  if (bytes == truth.model.read(id, offset, length)) return {};
  return crc(bytes) == prepared->crc() ? "a prepared read has wrong bytes of the right CRC" : "";
}

}  // namespace

std::set<uint64_t> Truth::bad_chunks() const {
  std::set<uint64_t> chunks;
  for (const auto& [where, chunk] : lost) chunks.insert(chunk);
  return chunks;
}

Expectation expect(const Sample& sample, const FilesImage& image) {
  Expectation expected;
  expected.truth.model = sample.model;
  // Without the first file nothing is where it was.
  const bool headless = image.files.front() == FilesImage::kMissing;
  // Of a file that was cut off inside a block, what is there can be read.
  const auto lost = [&](uint64_t chunk) {
    return headless || chunk >= image.bytes.size() / kChunkBytes;
  };
  const auto bad = [&](uint64_t chunk) {
    return lost(chunk) || !image.same_chunk(sample.now, chunk);
  };
  for (const auto& [chunk, uses] : sample.data) {
    if (!bad(chunk)) continue;
    for (const Use& use : uses) expected.truth.lost[{use.object, use.index}] = chunk;
  }
  for (const Twice& twice : sample.twice) {
    for (const uint64_t copy : {twice.a, twice.b}) {
      if (!bad(copy)) continue;
      expected.bad_copies.insert(copy);
    }
    if (bad(twice.a) && bad(twice.b)) {
      (twice.dispensable ? expected.whole : expected.opens) = false;
    }
  }
  // Of a closed store copy b of the superblock may look as if a crash had interrupted its writing.
  const uint64_t b = kSampleChunksPerBlock;
  const auto root = decode_superblock(sample.now.chunk(0));
  expected.clean = !bad(b) || (!headless && decode_superblock(image.chunk(b)));
  if (!headless && bad(b) && !decode_superblock(image.chunk(b)) &&
      may_be_torn(image.chunk(b), b, *root)) {
    expected.bad_copies.erase(b);
    expected.incomplete.insert(b);
  }
  // What lacks chunks that are used can only be read.
  if (headless) expected.opens = false;
  expected.writable =
      expected.whole && image.bytes.size() % (kSampleChunksPerBlock * kChunkBytes) == 0 &&
      std::ranges::none_of(sample.data, lost, [](const auto& e) { return e.first; }) &&
      std::ranges::none_of(sample.twice,
                           [&](const Twice& one) { return lost(one.a) || lost(one.b); });
  return expected;
}

std::string check_damage(const Error& error, ObjectId object, uint64_t index, uint64_t chunk) {
  const Damage& damage = error.damage;
  if (error.code != Code::kDamaged) return "fails, but not for damage: " + error.what;
  if (damage.object != object || damage.offset != index * kDataBytes || damage.chunk != chunk) {
    return fmt::format("says object {}, offset {}, chunk {}, not {}, {}, {}", text(damage.object),
                       damage.offset, damage.chunk, text(object), index * kDataBytes, chunk);
  }
  if (damage.field.empty() || damage.expected.empty() || damage.expected == damage.actual) {
    return fmt::format("does not say what it is: '{}', expected '{}', actual '{}'", damage.field,
                       damage.expected, damage.actual);
  }
  const bool told = error.what.contains(damage.field) && error.what.contains(damage.expected) &&
                    error.what.contains(damage.actual) && error.what.contains(text(object));
  return told ? "" : "its sentence lacks something: " + error.what;
}

std::string check_fields(const Damage& damage, const Use& use,
                         std::span<const uint8_t, kChunkBytes> chunk, uint32_t tag) {
  const ChunkHead head = head_of(chunk.data());
  const std::map<std::string, std::pair<uint64_t, uint64_t>> fields{
      {"data CRC", {data_crc_of(chunk.data()), crc_of(chunk.first<kDataBytes>())}},
      {"chunk CRC", {chunk_crc_of(chunk.data()), crc_of(chunk.first<kChunkBytes - 4>())}},
      {"store", {tag, head.store}},
      {"chunk number", {damage.chunk, head.id}},
      {"object", {use.birth.owner, head.birth.owner}},
      {"index", {use.birth.index, head.birth.index}},
      {"transaction", {use.birth.txn, head.birth.txn}},
      {"flags", {0, head.flags}}};
  const auto found = fields.find(damage.field);
  if (found == fields.end()) return "names a field that there is not: " + damage.field;
  const std::string expected = fmt::format("{:#x}", found->second.first);
  const std::string actual = fmt::format("{:#x}", found->second.second);
  if (damage.expected == expected && damage.actual == actual) return {};
  return fmt::format("{} is {}, expected {}; but it says {}, expected {}", damage.field, actual,
                     expected, damage.actual, damage.expected);
}

std::string check_contents(const Store& store, const Truth& truth, RandomSource& random) {
  std::string what = compare_listing(store, truth.model, random);
  for (const auto& [id, object] : truth.model.objects()) {
    if (!what.empty()) return what;
    const auto lost = truth.lost.lower_bound({id, 0});
    if (lost == truth.lost.end() || lost->first.first != id) {
      what = compare_object(store, truth.model, id);
      continue;
    }
    for (const auto& [index, cell] : object.cells) {
      if (what.empty()) what = check_range(store, truth, id, index * kDataBytes, kDataBytes);
      if (what.empty()) what = check_prepared(store, truth, id, index * kDataBytes, kDataBytes);
    }
    if (what.empty()) what = check_range(store, truth, id, 0, object.size + 1);
    for (int i = 0; i < 4 && what.empty(); ++i) {
      const uint64_t offset = random.below(object.size);
      const uint64_t length = 1 + random.below(3 * kDataBytes);
      what = check_range(store, truth, id, offset, length);
      if (what.empty()) what = check_prepared(store, truth, id, offset, length);
    }
  }
  return what;
}

std::string check_scrub(const ScrubReport& report, const Truth& truth,
                        const std::set<uint64_t>& copies) {
  std::set<uint64_t> expected = truth.bad_chunks();
  expected.insert(copies.begin(), copies.end());
  std::set<uint64_t> found;
  for (const Damage& damage : report.damage) {
    if (!found.insert(damage.chunk).second) {
      return fmt::format("scrub lists chunk {} twice", damage.chunk);
    }
    if (!expected.contains(damage.chunk)) {
      return fmt::format("scrub lists chunk {} ({}, expected {}, actual {}), which is good",
                         damage.chunk, damage.field, damage.expected, damage.actual);
    }
    if (damage.field.empty() || damage.expected.empty() || damage.actual.empty()) {
      return fmt::format("scrub does not say what chunk {} is", damage.chunk);
    }
    const bool of_data = !copies.contains(damage.chunk);
    const auto lost = truth.lost.find({damage.object, damage.offset / kDataBytes});
    const bool right = of_data ? lost != truth.lost.end() && lost->second == damage.chunk
                               : damage.object == ObjectId{};
    if (!right) {
      return fmt::format("scrub says that chunk {} is of object {} at {}", damage.chunk,
                         text(damage.object), damage.offset);
    }
  }
  for (const uint64_t chunk : expected) {
    if (!found.contains(chunk)) return fmt::format("scrub does not find chunk {}", chunk);
  }
  return report.damaged == expected.size() ? "" : "scrub counts wrong";
}

}  // namespace verbena::store::trial
