// SPDX-License-Identifier: Apache-2.0
// The connection, and requests without data. Each blocking call waits for the asynchronous one.
#include "client/client.h"

#include <algorithm>
#include <utility>

#include "client/answers.h"
#include "client/driver.h"

namespace verbena::client {

using session::Completion;

Client::Client(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const Options& options,
                                                std::unique_ptr<fabric::Fabric> fabric) {
  auto driver = std::make_unique<Driver>(options, std::move(fabric));
  if (const auto done = driver->start(); !done) return fail(done.error());
  return std::unique_ptr<Client>(new Client(std::move(driver)));
}

protocol::Limits Client::limits() const { return driver_->limits(); }
std::string Client::provider() const { return driver_->fabric_name(); }
void Client::set_passive_wait(bool on) { driver_->set_passive_wait(on); }
uint64_t Client::reconnects() const { return driver_->reconnects; }
uint64_t Client::repeated() const { return driver_->repeated; }

template <typename T>
Result<T> Client::await(const std::function<void(Then<T>)>& begin) {
  return driver_->await<Result<T>>([&](auto done) { begin(std::move(done)); });
}
template Result<void> Client::await(const std::function<void(Then<void>)>&);
template Result<ObjectId> Client::await(const std::function<void(Then<ObjectId>)>&);
template Result<ObjectInfo> Client::await(const std::function<void(Then<ObjectInfo>)>&);
template Result<Page> Client::await(const std::function<void(Then<Page>)>&);
template Result<StoredCrc> Client::await(const std::function<void(Then<StoredCrc>)>&);
template Result<Transferred> Client::await(const std::function<void(Done)>&);
template Result<uint64_t> Client::await(const std::function<void(Then<uint64_t>)>&);

namespace {

// Makes a request, and takes what is wanted of the response.
template <typename T, typename R, typename Take>
void ask(Driver& driver, const R& request, Take take, Then<T> done) {
  driver.submit(request, [&driver, take = std::move(take),
                          done = std::move(done)](const Completion& completion) {
    if (!good(completion)) return done(fail(error_of(completion, driver.why_lost())));
    const auto response = completion.as<typename R::Response>();
    if (!response) return done(fail(Error{Code::kCorrupted, {}, "the answer cannot be decoded"}));
    done(take(*response));
  });
}

constexpr auto kNothing = [](const auto& /*response*/) { return Result<void>{}; };

ObjectInfo info_of(const protocol::ObjectEntry& entry) {
  return {.id = entry.object,
          .name = std::string(entry.name),
          .size = entry.size,
          .chunks = entry.chunks,
          .segments = entry.segments,
          .content = entry.content,
          .created_ns = entry.created_ns,
          .modified_ns = entry.modified_ns};
}

}  // namespace

// --- asynchronous

void Client::ping_async(std::span<const uint8_t> data, Then<void> done) {
  ask<void>(
      *driver_, protocol::Ping{.data = data},
      [sent = std::vector(data.begin(), data.end())](const protocol::Pong& pong) -> Result<void> {
        if (std::ranges::equal(pong.data, sent)) return {};
        return fail(Error{Code::kCorrupted, {}, "the answer has other data"});
      },
      std::move(done));
}
void Client::create_async(std::string_view name, ObjectId id, Then<ObjectId> done) {
  ask<ObjectId>(
      *driver_, protocol::CreateRequest{.object = id, .name = name},
      [](const protocol::CreateResponse& response) { return response.object; }, std::move(done));
}
void Client::remove_async(const ObjectRef& object, Then<void> done) {
  ask<void>(*driver_, protocol::DeleteRequest{.object = object}, kNothing, std::move(done));
}
void Client::rename_async(const ObjectRef& object, std::string_view name, Then<void> done) {
  ask<void>(*driver_, protocol::RenameRequest{.object = object, .name = name}, kNothing,
            std::move(done));
}
void Client::truncate_async(const ObjectRef& object, uint64_t size, Then<void> done) {
  ask<void>(*driver_, protocol::TruncateRequest{.object = object, .size = size}, kNothing,
            std::move(done));
}
void Client::replace_async(const ObjectRef& object, const ObjectRef& by, Then<void> done) {
  ask<void>(*driver_, protocol::ReplaceRequest{.object = object, .by = by}, kNothing,
            std::move(done));
}
void Client::stat_async(const ObjectRef& object, Then<ObjectInfo> done) {
  ask<ObjectInfo>(
      *driver_, protocol::StatRequest{.object = object},
      [](const protocol::StatResponse& response) { return info_of(response.entry); },
      std::move(done));
}
void Client::list_async(const ObjectInfo* after, uint16_t limit, Then<Page> done) {
  protocol::ListRequest request{.limit = limit};
  if (after != nullptr) {
    request.resume = true;
    request.after_name = after->name;
    request.after_id = after->id;
  }
  ask<Page>(
      *driver_, request,
      [](const protocol::ListResponse& response) {
        Page page{{}, response.more};
        for (const protocol::ObjectEntry& entry : response.entries) {
          page.objects.push_back(info_of(entry));
        }
        return page;
      },
      std::move(done));
}
void Client::stored_crc_async(const ObjectRef& object, uint64_t offset, uint64_t length,
                              Then<StoredCrc> done) {
  ask<StoredCrc>(
      *driver_, protocol::CrcRequest{.object = object, .offset = offset, .length = length},
      [](const protocol::CrcResponse& response) {
        return StoredCrc{response.length, response.crc};
      },
      std::move(done));
}
void Client::clone_async(const ObjectRef& from, const ObjectRef& to, const CloneOptions& options,
                         Then<ObjectId> done) {
  ask<ObjectId>(
      *driver_,
      protocol::CowRequest{.from = from,
                           .to = to,
                           .from_offset = options.from_offset,
                           .length = options.length,
                           .to_offset = options.to_offset,
                           .allow_existing = options.allow_existing,
                           .to_name = options.to_name},
      [](const protocol::CowResponse& response) { return response.object; }, std::move(done));
}
void Client::flush_async(const ObjectRef& object, uint64_t offset, uint64_t length,
                         Then<void> done) {
  ask<void>(*driver_, protocol::FlushRequest{.object = object, .offset = offset, .length = length},
            kNothing, std::move(done));
}
void Client::go_behind_async(const ObjectRef& object, protocol::BehindAction action,
                             Then<BehindState> done) {
  ask<BehindState>(
      *driver_, protocol::BehindRequest{.object = object, .action = action},
      [](const protocol::BehindResponse& response) {
        return BehindState{response.only_here, response.in_both, response.behind, response.evicted,
                           response.flushed};
      },
      std::move(done));
}
void Client::register_range_async(const ObjectRef& object, uint64_t offset, uint64_t length,
                                  protocol::RangeAccess access, Then<uint64_t> done) {
  ask<uint64_t>(
      *driver_,
      protocol::RangeRegisterRequest{
          .object = object, .offset = offset, .length = length, .access = access},
      [](const protocol::RangeRegisterResponse& response) { return response.range; },
      std::move(done));
}
void Client::unregister_range_async(uint64_t range, Then<void> done) {
  ask<void>(*driver_, protocol::RangeUnregisterRequest{.range = range}, kNothing, std::move(done));
}

// --- blocking

Result<void> Client::ping(std::span<const uint8_t> data) {
  return await<void>([&](auto done) { ping_async(data, std::move(done)); });
}
Result<ObjectId> Client::create(std::string_view name, ObjectId id) {
  return await<ObjectId>([&](auto done) { create_async(name, id, std::move(done)); });
}
Result<void> Client::remove(const ObjectRef& object) {
  return await<void>([&](auto done) { remove_async(object, std::move(done)); });
}
Result<void> Client::rename(const ObjectRef& object, std::string_view name) {
  return await<void>([&](auto done) { rename_async(object, name, std::move(done)); });
}
Result<void> Client::truncate(const ObjectRef& object, uint64_t size) {
  return await<void>([&](auto done) { truncate_async(object, size, std::move(done)); });
}
Result<void> Client::replace(const ObjectRef& object, const ObjectRef& by) {
  return await<void>([&](auto done) { replace_async(object, by, std::move(done)); });
}
Result<ObjectInfo> Client::stat(const ObjectRef& object) {
  return await<ObjectInfo>([&](auto done) { stat_async(object, std::move(done)); });
}
Result<Page> Client::list(const ObjectInfo* after, uint16_t limit) {
  return await<Page>([&](auto done) { list_async(after, limit, std::move(done)); });
}
Result<StoredCrc> Client::stored_crc(const ObjectRef& object, uint64_t offset, uint64_t length) {
  return await<StoredCrc>(
      [&](auto done) { stored_crc_async(object, offset, length, std::move(done)); });
}
Result<ObjectId> Client::clone(const ObjectRef& from, const ObjectRef& to,
                               const CloneOptions& options) {
  return await<ObjectId>([&](auto done) { clone_async(from, to, options, std::move(done)); });
}
Result<void> Client::flush(const ObjectRef& object, uint64_t offset, uint64_t length) {
  return await<void>([&](auto done) { flush_async(object, offset, length, std::move(done)); });
}
Result<BehindState> Client::go_behind(const ObjectRef& object, protocol::BehindAction action) {
  return await<BehindState>([&](auto done) { go_behind_async(object, action, std::move(done)); });
}
Result<uint64_t> Client::register_range(const ObjectRef& object, uint64_t offset, uint64_t length,
                                        protocol::RangeAccess access) {
  return await<uint64_t>(
      [&](auto done) { register_range_async(object, offset, length, access, std::move(done)); });
}
Result<void> Client::unregister_range(uint64_t range) {
  return await<void>([&](auto done) { unregister_range_async(range, std::move(done)); });
}

}  // namespace verbena::client
