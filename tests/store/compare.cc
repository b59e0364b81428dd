// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <algorithm>
#include <vector>

#include "operation.h"

namespace verbena::store::trial {
namespace {

// Longer ones are not read in one piece.
constexpr uint64_t kPiece = 128 * 1024;

std::string compare_range(const Store& store, const Model& model, ObjectId id, uint64_t offset,
                          uint64_t length) {
  std::vector<uint8_t> bytes(length, 0xee);
  uint32_t derived = 0;
  const auto got = store.read(id, offset, bytes, &derived);
  const std::string where = "object " + text(id) + ", " + std::to_string(length) + " bytes at " +
                            std::to_string(offset) + ": ";
  if (!got.has_value()) return where + "reading says " + got.error().what;
  const std::vector<uint8_t> expected = model.read(id, offset, length);
  if (*got != expected.size()) {
    return where + "reading gives " + std::to_string(*got) + " bytes, not " +
           std::to_string(expected.size());
  }
  bytes.resize(*got);
  if (bytes != expected) {
    const auto at = std::mismatch(bytes.begin(), bytes.end(), expected.begin());
    return where + "differs at byte " +
           std::to_string(offset + static_cast<uint64_t>(at.first - bytes.begin()));
  }
  if (derived != crc(bytes)) return where + "the derived CRC is not that of the bytes";
  return {};
}

}  // namespace

std::string compare_object(const Store& store, const Model& model, ObjectId id) {
  const ModelObject& object = *model.find(id);
  // Runs of cells, with a little of the holes around them, and the end.
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // begin, end
  for (const auto& [index, cell] : object.cells) {
    const uint64_t begin = index * kDataBytes - std::min<uint64_t>(index, 1) * 100;
    const uint64_t end = (index + 1) * kDataBytes + 100;
    if (!ranges.empty() && begin <= ranges.back().second && end - ranges.back().first <= kPiece) {
      ranges.back().second = end;
    } else {
      ranges.emplace_back(begin, end);
    }
  }
  ranges.emplace_back(object.size / 2, object.size / 2 + 4096);
  ranges.emplace_back(object.size - std::min<uint64_t>(object.size, 5000), object.size + 50);
  for (const auto& [begin, end] : ranges) {
    std::string what = compare_range(store, model, id, begin, end - begin);
    if (!what.empty()) return what;
  }
  return {};
}

std::string compare_listing(const Store& store, const Model& model, RandomSource& random) {
  const std::vector<ObjectId> expected = model.listing();
  std::optional<Cursor> after;
  size_t seen = 0;
  for (;;) {
    const size_t limit = 1 + random.below(expected.size() + 2);
    const std::vector<ObjectInfo> page = *store.list(after, limit);
    for (const ObjectInfo& info : page) {
      if (seen == expected.size() || info.id != expected[seen]) {
        return "listing has object " + text(info.id) + " at place " + std::to_string(seen);
      }
      const ModelObject& object = *model.find(info.id);
      if (info.name != object.name) return "object " + text(info.id) + " is named " + info.name;
      const uint64_t chunks = object.in_chunks ? object.cells.size() : 0;
      if (info.size != object.size || info.chunks != chunks) {
        return "object " + text(info.id) + " has " + std::to_string(info.size) + " bytes in " +
               std::to_string(info.chunks) + " chunks, not " + std::to_string(object.size) +
               " in " + std::to_string(chunks);
      }
      if (!info.name.empty()) {
        const auto found = store.find(info.name);
        if (!found.has_value() || *found != info.id) return "nobody is named " + info.name;
      }
      ++seen;
    }
    if (page.size() < limit) break;
    after = Cursor{.name = page.back().name, .id = page.back().id};
  }
  if (seen != expected.size()) return "listing ends before object " + text(expected[seen]);
  return {};
}

std::string compare_space(const Store& store, const Model& model, std::span<const CellRef> pinned) {
  const SpaceInfo space = store.space();
  const uint64_t expected = model.used(pinned);
  if (space.used != expected) {
    return "the store uses " + std::to_string(space.used) + " chunks, not " +
           std::to_string(expected);
  }
  if (space.used + space.pending + space.free != space.capacity) {
    return "used " + std::to_string(space.used) + ", pending " + std::to_string(space.pending) +
           " and free " + std::to_string(space.free) + " are not the capacity of " +
           std::to_string(space.capacity);
  }
  return {};
}

std::string compare(const Store& store, const Model& model, RandomSource& random,
                    std::span<const CellRef> pinned) {
  std::string what = compare_listing(store, model, random);
  for (auto at = model.objects().begin(); what.empty() && at != model.objects().end(); ++at) {
    what = compare_object(store, model, at->first);
  }
  return what.empty() ? compare_space(store, model, pinned) : what;
}

}  // namespace verbena::store::trial
