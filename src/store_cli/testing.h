// SPDX-License-Identifier: Apache-2.0
// What tests of the commands share.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace verbena::store_cli {

// A store that offers what all do, as a remote one.
class PlainObjects : public store::Objects {
 public:
  explicit PlainObjects(store::Store& store) : store_(store) {}
  store::Result<void> create_object(store::ObjectId id, std::string_view name) override {
    return store_.create_object(id, name);
  }
  store::Result<store::ObjectId> find(std::string_view name) const override {
    return store_.find(name);
  }
  store::Result<void> remove(store::ObjectId id) override { return store_.remove(id); }
  store::Result<void> rename(store::ObjectId id, std::string_view name) override {
    return store_.rename(id, name);
  }
  store::Result<void> replace(store::ObjectId id, store::ObjectId by) override {
    return store_.replace(id, by);
  }
  store::Result<void> truncate(store::ObjectId id, uint64_t size) override {
    return store_.truncate(id, size);
  }
  store::Result<store::ObjectInfo> stat(store::ObjectId id) const override {
    return store_.stat(id);
  }
  store::Result<std::vector<store::ObjectInfo>> list(
      const std::optional<store::Cursor>& after, size_t limit,
      std::vector<store::ListLoss>* lost) const override {
    return store_.list(after, limit, lost);
  }
  store::Result<void> write(store::ObjectId id, uint64_t offset,
                            std::span<const uint8_t> bytes) override {
    return store_.write(id, offset, bytes);
  }
  store::Result<size_t> read(store::ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                             uint32_t* crc) const override {
    return store_.read(id, offset, bytes, crc);
  }
  store::Result<void> clone(const store::CloneRequest& request) override {
    return store_.clone(request);
  }
  store::Result<void> flush() override { return store_.flush(); }

 private:
  store::Store& store_;
};

}  // namespace verbena::store_cli
