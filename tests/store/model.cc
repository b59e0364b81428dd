// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_set>

#include "store/record.h"

namespace verbena::store::trial {
namespace {

constexpr uint64_t kLargest = kMaxIndex * kDataBytes;

std::shared_ptr<Cell> copy_of(const ModelObject& object, uint64_t index) {
  const auto found = object.cells.find(index);
  return found == object.cells.end() ? std::make_shared<Cell>()
                                     : std::make_shared<Cell>(*found->second);
}

// Zeros behind `size` in the chunk that it ends in: they must not come back when the object grows.
void cut_last_cell(ModelObject& object, uint64_t size) {
  const uint64_t index = size / kDataBytes;
  const uint64_t within = size % kDataBytes;
  if (within == 0 || !object.cells.contains(index)) return;
  auto cell = copy_of(object, index);
  std::fill(cell->bytes.begin() + static_cast<ptrdiff_t>(within), cell->bytes.end(), uint8_t{0});
  object.cells[index] = std::move(cell);
}

// Within one chunk of `to`. Zeros that are copied from a hole are data.
void copy_bytes(const ModelObject& from, uint64_t from_offset, ModelObject& to, uint64_t to_offset,
                uint64_t length) {
  const uint64_t index = to_offset / kDataBytes;
  auto cell = copy_of(to, index);
  for (uint64_t i = 0; i < length; ++i) {
    const auto found = from.cells.find((from_offset + i) / kDataBytes);
    cell->bytes[(to_offset + i) % kDataBytes] =
        found == from.cells.end() ? uint8_t{0}
                                  : found->second->bytes[(from_offset + i) % kDataBytes];
  }
  to.cells[index] = std::move(cell);
}

}  // namespace

std::string text(ObjectId id) { return std::to_string(id.high) + ":" + std::to_string(id.low); }

bool Model::name_is_free(const std::string& name) const {
  return name.empty() || !find(name).has_value();
}

Refusal Model::create(ObjectId id, const std::string& name) {
  if (!good_name(name)) return Code::kInvalid;
  if (objects_.contains(id) || !name_is_free(name)) return Code::kExists;
  objects_[id].name = name;
  return {};
}

Refusal Model::remove(ObjectId id) {
  return objects_.erase(id) == 1 ? Refusal{} : Refusal{Code::kNotFound};
}

Refusal Model::rename(ObjectId id, const std::string& name) {
  if (!good_name(name)) return Code::kInvalid;
  const auto found = objects_.find(id);
  if (found == objects_.end()) return Code::kNotFound;
  if (found->second.name == name) return {};
  if (!name_is_free(name)) return Code::kExists;
  found->second.name = name;
  return {};
}

Refusal Model::replace(ObjectId id, ObjectId by) {
  if (id == by) return Code::kInvalid;
  const auto found = objects_.find(id);
  const auto other = objects_.find(by);
  if (found == objects_.end() || other == objects_.end()) return Code::kNotFound;
  found->second.size = other->second.size;
  found->second.cells = std::move(other->second.cells);
  found->second.in_chunks = other->second.in_chunks;
  objects_.erase(other);
  return {};
}

Refusal Model::truncate(ObjectId id, uint64_t size) {
  const auto found = objects_.find(id);
  if (size > kLargest) return Code::kInvalid;
  if (found == objects_.end()) return Code::kNotFound;
  ModelObject& object = found->second;
  if (size < object.size) {
    object.cells.erase(object.cells.lower_bound((size + kDataBytes - 1) / kDataBytes),
                       object.cells.end());
    cut_last_cell(object, size);
  }
  object.size = size;
  object.in_chunks = !object.cells.empty() && (object.in_chunks || size > kMaxContentBytes);
  return {};
}

Refusal Model::write(ObjectId id, uint64_t offset, std::span<const uint8_t> bytes, bool device) {
  const auto found = objects_.find(id);
  if (offset > kLargest || bytes.size() > kLargest - offset) return Code::kInvalid;
  if (found == objects_.end()) return Code::kNotFound;
  ModelObject& object = found->second;
  for (size_t done = 0; done < bytes.size();) {
    const uint64_t at = offset + done;
    const uint64_t within = at % kDataBytes;
    const size_t count = std::min<size_t>(bytes.size() - done, kDataBytes - within);
    auto cell = copy_of(object, at / kDataBytes);
    std::memcpy(cell->bytes.data() + within, bytes.data() + done, count);
    object.cells[at / kDataBytes] = std::move(cell);
    done += count;
  }
  if (bytes.empty()) return {};
  object.size = std::max(object.size, offset + bytes.size());
  if (device || always_chunks_ || object.size > kMaxContentBytes) object.in_chunks = true;
  return {};
}

Refusal Model::clone(const CloneRequest& request) {
  const std::string name(request.to_name);
  const auto from = objects_.find(request.from);
  if (from == objects_.end()) return Code::kNotFound;
  const bool exists = objects_.contains(request.to);
  if (exists && !request.allow_existing) return Code::kExists;
  if (!exists && !good_name(name)) return Code::kInvalid;
  const ModelObject source = from->second;  // as it was, should it be the destination, too
  if (request.from_offset > source.size) return Code::kInvalid;
  const uint64_t length = request.length == 0 ? source.size - request.from_offset : request.length;
  if (length > source.size - request.from_offset) return Code::kInvalid;
  if (request.to_offset > kLargest - length) return Code::kInvalid;
  const uint64_t from_end = request.from_offset + length;
  const uint64_t to_end = request.to_offset + length;
  if (request.from == request.to && request.from_offset < to_end && request.to_offset < from_end) {
    return Code::kInvalid;
  }
  if (!exists && !name_is_free(name)) return Code::kExists;

  ModelObject& to = objects_[request.to];
  if (!exists) to.name = name;
  const uint64_t new_size = length == 0 ? to.size : std::max(to.size, to_end);
  const bool congruent = request.from_offset % kDataBytes == request.to_offset % kDataBytes;
  for (uint64_t at = request.to_offset; at < to_end;) {
    const uint64_t index = at / kDataBytes;
    const uint64_t end = std::min((index + 1) * kDataBytes, to_end);
    const uint64_t source_at = request.from_offset + (at - request.to_offset);
    const bool whole = end - at == kDataBytes;
    const bool last_of_both =
        at % kDataBytes == 0 && end == to_end && new_size == to_end && from_end == source.size;
    if (congruent && (whole || last_of_both)) {
      const auto cell = source.cells.find(source_at / kDataBytes);
      if (cell == source.cells.end()) {
        to.cells.erase(index);
      } else {
        to.cells[index] = cell->second;
      }
    } else {
      copy_bytes(source, source_at, to, at, end - at);
    }
    at = end;
  }
  const bool few = !always_chunks_ && !source.in_chunks && !source.cells.empty() && !to.in_chunks &&
                   new_size <= kMaxContentBytes;
  to.size = new_size;
  if (length == 0 || few) return {};
  if (!to.cells.empty()) to.in_chunks = true;
  ModelObject& origin = objects_.at(request.from);
  if (!origin.cells.empty()) origin.in_chunks = true;
  return {};
}

const ModelObject* Model::find(ObjectId id) const {
  const auto found = objects_.find(id);
  return found == objects_.end() ? nullptr : &found->second;
}

std::optional<ObjectId> Model::find(const std::string& name) const {
  for (const auto& [id, object] : objects_) {
    if (object.name == name) return id;
  }
  return {};
}

std::vector<ObjectId> Model::listing() const {
  std::vector<ObjectId> ids;
  for (const auto& [id, object] : objects_) ids.push_back(id);
  std::sort(ids.begin(), ids.end(), [this](ObjectId a, ObjectId b) {
    return std::tie(objects_.at(a).name, a) < std::tie(objects_.at(b).name, b);
  });
  return ids;
}

std::vector<uint8_t> Model::read(ObjectId id, uint64_t offset, uint64_t length) const {
  const ModelObject& object = objects_.at(id);
  if (offset >= object.size) return {};
  std::vector<uint8_t> bytes(std::min(length, object.size - offset));
  if (bytes.empty()) return bytes;
  const uint64_t last = (offset + bytes.size() - 1) / kDataBytes;
  for (auto at = object.cells.lower_bound(offset / kDataBytes);
       at != object.cells.end() && at->first <= last; ++at) {
    const uint64_t begin = std::max(offset, at->first * kDataBytes);
    const uint64_t end = std::min(offset + bytes.size(), (at->first + 1) * kDataBytes);
    std::memcpy(bytes.data() + (begin - offset), at->second->bytes.data() + begin % kDataBytes,
                end - begin);
  }
  return bytes;
}

std::vector<CellRef> Model::cells(ObjectId id, uint64_t offset, uint64_t length) const {
  std::vector<CellRef> held;
  const ModelObject& object = objects_.at(id);
  if (length == 0 || offset >= object.size || !object.in_chunks) return held;
  const uint64_t last = (std::min(offset + length, object.size) - 1) / kDataBytes;
  for (auto at = object.cells.lower_bound(offset / kDataBytes);
       at != object.cells.end() && at->first <= last; ++at) {
    held.push_back(at->second);
  }
  return held;
}

uint64_t Model::used(std::span<const CellRef> pinned) const {
  std::unordered_set<const Cell*> seen;
  for (const auto& [id, object] : objects_) {
    if (!object.in_chunks) continue;
    for (const auto& [index, cell] : object.cells) seen.insert(cell.get());
  }
  for (const CellRef& cell : pinned) seen.insert(cell.get());
  return seen.size();
}

bool Model::same(const Model& other) const { return differs(other).empty(); }

std::string Model::differs(const Model& other) const {
  for (const auto& [id, object] : objects_) {
    const ModelObject* const twin = other.find(id);
    if (twin == nullptr) return "object " + text(id) + " is missing";
    if (twin->name != object.name) {
      return "object " + text(id) + " is named '" + twin->name + "', not '" + object.name + "'";
    }
    if (twin->size != object.size) {
      return "object " + text(id) + " has " + std::to_string(twin->size) + " bytes, not " +
             std::to_string(object.size);
    }
    static const Cell zeros;
    const auto bytes = [](const ModelObject& of, uint64_t index) {
      const auto found = of.cells.find(index);
      return found == of.cells.end() ? &zeros : found->second.get();
    };
    std::vector<uint64_t> indices;
    for (const auto& [index, cell] : object.cells) indices.push_back(index);
    for (const auto& [index, cell] : twin->cells) indices.push_back(index);
    for (const uint64_t index : indices) {
      const Cell* const mine = bytes(object, index);
      const Cell* const its = bytes(*twin, index);
      if (mine == its || mine->bytes == its->bytes) continue;
      const auto at = std::mismatch(mine->bytes.begin(), mine->bytes.end(), its->bytes.begin());
      return "object " + text(id) + " differs at byte " +
             std::to_string(index * kDataBytes +
                            static_cast<uint64_t>(at.first - mine->bytes.begin()));
    }
  }
  for (const auto& [id, object] : other.objects_) {
    if (!objects_.contains(id)) return "object " + text(id) + " should not be there";
  }
  return {};
}

}  // namespace verbena::store::trial
