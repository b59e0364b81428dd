// SPDX-License-Identifier: Apache-2.0
// The objects of a store that a server has, as those of any other store.
#pragma once

#include <memory>

#include "client/client.h"
#include "store/objects.h"

namespace verbena::client {

[[nodiscard]] store::Error store_error(const Error& error);

class RemoteObjects final : public store::Objects {
 public:
  explicit RemoteObjects(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  [[nodiscard]] store::Result<void> create_object(ObjectId id, std::string_view name) override;
  [[nodiscard]] store::Result<ObjectId> find(std::string_view name) const override;
  [[nodiscard]] store::Result<void> remove(ObjectId id) override;
  [[nodiscard]] store::Result<void> rename(ObjectId id, std::string_view name) override;
  [[nodiscard]] store::Result<void> replace(ObjectId id, ObjectId by) override;
  [[nodiscard]] store::Result<void> truncate(ObjectId id, uint64_t size) override;
  [[nodiscard]] store::Result<store::ObjectInfo> stat(ObjectId id) const override;
  [[nodiscard]] store::Result<std::vector<store::ObjectInfo>> list(
      const std::optional<store::Cursor>& after, size_t limit,
      std::vector<store::ListLoss>* lost) const override;
  // Of more than one request's bytes, each part is atomic, not the whole.
  [[nodiscard]] store::Result<void> write(ObjectId id, uint64_t offset,
                                          std::span<const uint8_t> bytes) override;
  [[nodiscard]] store::Result<size_t> read(ObjectId id, uint64_t offset, std::span<uint8_t> bytes,
                                           uint32_t* crc) const override;
  [[nodiscard]] store::Result<uint32_t> stored_crc(ObjectId id, uint64_t offset,
                                                   uint64_t length) const override;
  [[nodiscard]] store::Result<void> clone(const store::CloneRequest& request) override;
  [[nodiscard]] store::Result<void> flush() override;
  [[nodiscard]] store::Result<store::BehindReport> go_behind(const std::optional<ObjectId>& id,
                                                             store::BehindAction action) override;
  [[nodiscard]] store::Result<store::RangeId> register_range(ObjectId id, uint64_t offset,
                                                             uint64_t length,
                                                             store::Access access) override;
  [[nodiscard]] store::Result<void> unregister_range(store::RangeId range) override;

  [[nodiscard]] Client& client() const { return *client_; }

 private:
  std::unique_ptr<Client> client_;
};

}  // namespace verbena::client
