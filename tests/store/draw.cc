// SPDX-License-Identifier: Apache-2.0
// Which operation comes next: what a store is used for, at the places where it may go wrong.
#include <algorithm>
#include <array>

#include "operation.h"
#include "store/record.h"

namespace verbena::store::trial {
namespace {

using Kind = Operation::Kind;
using Device = Operation::Device;

class Drawer {
 public:
  Drawer(RandomSource& random, const Model& model, const Profile& profile)
      : random_(random), model_(model), profile_(profile) {}

  Operation draw() {
    Operation operation;
    operation.data_seed = random_.next();
    if (per_mille(profile_.flush_per_mille)) {
      operation.kind = Kind::kFlush;
    } else if (per_mille(profile_.checkpoint_per_mille)) {
      operation.kind = one_in(2) ? Kind::kCompact : Kind::kCheckpoint;
    } else if (per_mille(profile_.nonsense_per_mille)) {
      nonsense(operation);
    } else if (model_.objects().empty() ||
               (model_.objects().size() < profile_.objects && one_in(8))) {
      operation.kind = Kind::kCreate;
      operation.id = fresh_id();
      operation.name = fresh_name();
    } else {
      change(operation);
    }
    return operation;
  }

 private:
  bool per_mille(uint32_t chance) { return random_.below(1000) < chance; }
  bool one_in(uint64_t n) { return random_.below(n) == 0; }

  ObjectId some_id() {
    auto at = model_.objects().begin();
    std::advance(at, static_cast<ptrdiff_t>(random_.below(model_.objects().size())));
    return at->first;
  }
  ObjectId fresh_id() {
    for (;;) {
      // A few highs and lows, so that ids come back that were removed.
      const ObjectId id{.high = random_.below(3), .low = 1 + random_.below(4 * profile_.objects)};
      if (model_.find(id) == nullptr) return id;
    }
  }
  std::string fresh_name() {
    for (;;) {
      if (one_in(4)) return {};
      std::string name = "name-" + std::to_string(random_.below(8 * profile_.objects));
      if (one_in(16)) name.append(kMaxNameBytes - name.size(), 'x');
      if (!model_.find(name).has_value()) return name;
    }
  }

  uint64_t size_of(ObjectId id) { return model_.find(id)->size; }

  // Offsets where the grids of 4048 and of 4096 lie, around the object's end, and anywhere.
  uint64_t some_offset(uint64_t bound) {
    switch (random_.below(6)) {
      case 0: return random_.below(bound / kDataBytes + 1) * kDataBytes;
      case 1: return random_.below(bound / 4096 + 1) * 4096;
      case 2: {
        const uint64_t near = random_.below(bound / kDataBytes + 1) * kDataBytes;
        return near + random_.below(3) - std::min<uint64_t>(near, 1);
      }
      default: return random_.below(bound + 1);
    }
  }
  uint64_t some_length(uint64_t bound) {
    uint64_t length = 0;
    switch (random_.below(6)) {
      case 0:  length = 1 + random_.below(16); break;
      case 1:  length = 4096; break;
      case 2:  length = kDataBytes * (1 + random_.below(4)); break;
      case 3:  length = 4096 * (1 + random_.below(8)); break;
      case 4:  length = 1 + random_.below(2 * kDataBytes); break;
      default: length = 1 + random_.below(bound); break;
    }
    return std::clamp<uint64_t>(length, 1, bound);
  }
  bool far_out() { return profile_.sparse_bytes != 0 && one_in(40); }

  void place_write(Operation& operation) {
    operation.length = some_length(profile_.write_bytes);
    const uint64_t size = std::min(size_of(operation.id), profile_.object_bytes);
    switch (random_.below(4)) {
      case 0:  operation.offset = size; break;
      case 1:  operation.offset = some_offset(profile_.object_bytes - operation.length); break;
      default: operation.offset = some_offset(size);
    }
    operation.offset = std::min(operation.offset, profile_.object_bytes - operation.length);
    if (far_out()) operation.offset = some_offset(profile_.sparse_bytes);
  }

  void change(Operation& operation) {
    operation.id = some_id();
    const uint64_t what = random_.below(100);
    if (what < 45) {
      operation.kind = Kind::kWrite;
      place_write(operation);
    } else if (what < 60) {
      operation.kind = Kind::kPreparedWrite;
      operation.device =
          static_cast<Device>(random_.below(static_cast<uint64_t>(Device::kNeverCommitted) + 1));
      place_write(operation);
    } else if (what < 72) {
      operation.kind = Kind::kTruncate;
      operation.length =
          one_in(3) ? some_offset(profile_.object_bytes)
                    : some_offset(std::min(size_of(operation.id) + 1, profile_.object_bytes));
      if (far_out()) operation.length = some_offset(profile_.sparse_bytes);
    } else if (what < 90) {
      clone(operation);
    } else if (what < 92) {
      operation.kind = Kind::kReplace;
      operation.to = some_id();  // itself: refused
    } else if (what < 95) {
      operation.kind = Kind::kRename;
      operation.name = fresh_name();
    } else if (what < 98 || model_.objects().size() > profile_.objects) {
      operation.kind = Kind::kRemove;
    } else {
      operation.kind = Kind::kFlush;
    }
  }

  void clone(Operation& operation) {
    operation.kind = Kind::kClone;
    const uint64_t size = size_of(operation.id);
    const bool onto_existing = model_.objects().size() >= profile_.objects || one_in(2);
    operation.to = onto_existing ? some_id() : fresh_id();
    operation.allow_existing = onto_existing || one_in(2);
    if (!onto_existing) operation.name = fresh_name();
    if (one_in(3) && size <= profile_.object_bytes && !(operation.to == operation.id)) return;
    // A range; long ones of sparse objects would be copied byte by byte.
    operation.offset = std::min(some_offset(std::min(size, profile_.object_bytes)), size);
    operation.length = std::min(some_length(profile_.object_bytes), size - operation.offset);
    if (operation.length == 0 && size > profile_.object_bytes) operation.length = 1;
    if (operation.offset + operation.length > size) operation.offset = size - operation.length;
    switch (random_.below(3)) {
      case 0: operation.to_offset = operation.offset; break;
      case 1:
        operation.to_offset = random_.below(profile_.object_bytes / kDataBytes + 1) * kDataBytes +
                              operation.offset % kDataBytes;
        break;
      default: operation.to_offset = some_offset(profile_.object_bytes);
    }
  }

  void nonsense(Operation& operation) {
    const bool any = !model_.objects().empty();
    operation.id = fresh_id();
    operation.length = 1 + random_.below(5000);
    switch (random_.below(8)) {
      case 0: operation.kind = Kind::kWrite; break;
      case 1: operation.kind = Kind::kRemove; break;
      case 2: operation.kind = Kind::kTruncate; break;
      case 3:
        operation.kind = Kind::kRename;
        operation.name = "nobody";
        break;
      case 4:
        operation.kind = Kind::kCreate;
        if (any && one_in(2)) {
          operation.id = some_id();
        } else {
          operation.name = one_in(2) ? std::string(kMaxNameBytes + 1, 'n') : std::string("a\tb");
        }
        break;
      case 5:  // not allowed onto what exists
        operation.kind = Kind::kClone;
        operation.length = 0;
        if (any) operation.id = some_id();
        operation.to = any ? some_id() : fresh_id();
        break;
      case 6:  // beyond the source's end
        operation.kind = Kind::kClone;
        if (any) operation.id = some_id();
        operation.to = fresh_id();
        operation.offset = any ? size_of(operation.id) : 0;
        break;
      default:  // beyond what there can be
        operation.kind = one_in(2) ? Kind::kWrite : Kind::kPreparedWrite;
        if (any) operation.id = some_id();
        operation.offset = kMaxIndex * kDataBytes - random_.below(operation.length);
    }
  }

  RandomSource& random_;
  const Model& model_;
  const Profile& profile_;
};

}  // namespace

Operation draw(RandomSource& random, const Model& model, const Profile& profile) {
  return Drawer(random, model, profile).draw();
}

}  // namespace verbena::store::trial
