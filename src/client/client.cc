// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/block_sums.h"
#include "base/check.h"
#include "client/driver.h"

namespace verbena::client {
namespace {

using session::Completion;
using session::Outcome;

// What a request that was not done, or not as it should have been, ended with.
Error error_of(const Completion& completion, const std::string& why_lost) {
  const auto said = [&](const char* otherwise) {
    return completion.detail.empty() ? std::string(otherwise) : completion.detail;
  };
  switch (completion.outcome) {
    case Outcome::kDone:
      return {Code::kAnswered, completion.status, said(protocol::name_of(completion.status))};
    case Outcome::kUnknown:
      return {Code::kUnknown,
              {},
              fmt::format("the server did not answer ({}): whether it was done is not known",
                          why_lost.empty() ? "in time" : why_lost)};
    case Outcome::kTimedOut:
      return {
          Code::kUnreachable,
          {},
          fmt::format("the server did not answer ({})", why_lost.empty() ? "in time" : why_lost)};
    case Outcome::kCancelled: return {Code::kCancelled, {}, "the client was closed"};
    case Outcome::kRefused:   return {Code::kRefused, {}, said("the server refuses this client")};
    case Outcome::kCorrupted: return {Code::kCorrupted, {}, said("the data is corrupted")};
    case Outcome::kInvalid:   return {Code::kInvalid, {}, said("the request is not valid")};
  }
  return {};
}

bool good(const Completion& completion) {
  return completion.outcome == Outcome::kDone && completion.status == protocol::Status::kOk;
}

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

Client::Client(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::connect(const Options& options,
                                                std::unique_ptr<fabric::Fabric> fabric) {
  auto driver = std::make_unique<Driver>(options, std::move(fabric));
  if (const auto done = driver->start(); !done) return fail(done.error());
  return std::unique_ptr<Client>(new Client(std::move(driver)));
}

protocol::Limits Client::limits() const { return driver_->limits(); }
uint64_t Client::reconnects() const { return driver_->reconnects; }
uint64_t Client::repeated() const { return driver_->repeated; }

// --- requests without data

namespace {

// Makes a request, waits, and takes what is wanted of the response.
template <typename R, typename Take>
auto ask(Driver& driver, const R& request, Take take)
    -> Result<decltype(take(std::declval<const typename R::Response&>()))> {
  const auto completion =
      driver.await<Completion>([&](auto done) { driver.submit(request, std::move(done)); });
  if (!good(completion)) return fail(error_of(completion, driver.why_lost()));
  const auto response = completion.template as<typename R::Response>();
  if (!response) return fail(Error{Code::kCorrupted, {}, "the answer cannot be decoded"});
  if constexpr (std::is_void_v<decltype(take(*response))>) {
    return {};
  } else {
    return take(*response);
  }
}

constexpr auto kNothing = [](const auto& /*response*/) {};
}  // namespace

Result<void> Client::ping(std::span<const uint8_t> data) {
  const auto echoed = ask(*driver_, protocol::Ping{.data = data}, [&](const protocol::Pong& pong) {
    return std::ranges::equal(pong.data, data);
  });
  if (!echoed) return fail(echoed.error());
  if (*echoed) return {};
  return fail(Error{Code::kCorrupted, {}, "the answer has other data"});
}
Result<ObjectId> Client::create(std::string_view name, ObjectId id) {
  return ask(*driver_, protocol::CreateRequest{.object = id, .name = name},
             [](const protocol::CreateResponse& response) { return response.object; });
}
Result<void> Client::remove(const ObjectRef& object) {
  return ask(*driver_, protocol::DeleteRequest{.object = object}, kNothing);
}
Result<void> Client::rename(const ObjectRef& object, std::string_view name) {
  return ask(*driver_, protocol::RenameRequest{.object = object, .name = name}, kNothing);
}
Result<void> Client::truncate(const ObjectRef& object, uint64_t size) {
  return ask(*driver_, protocol::TruncateRequest{.object = object, .size = size}, kNothing);
}
Result<void> Client::replace(const ObjectRef& object, const ObjectRef& by) {
  return ask(*driver_, protocol::ReplaceRequest{.object = object, .by = by}, kNothing);
}
Result<ObjectInfo> Client::stat(const ObjectRef& object) {
  return ask(*driver_, protocol::StatRequest{.object = object},
             [](const protocol::StatResponse& response) { return info_of(response.entry); });
}
Result<Page> Client::list(const ObjectInfo* after, uint16_t limit) {
  protocol::ListRequest request{.limit = limit};
  if (after != nullptr) {
    request.resume = true;
    request.after_name = after->name;
    request.after_id = after->id;
  }
  return ask(*driver_, request, [](const protocol::ListResponse& response) {
    Page page{{}, response.more};
    for (const protocol::ObjectEntry& entry : response.entries) {
      page.objects.push_back(info_of(entry));
    }
    return page;
  });
}
Result<StoredCrc> Client::stored_crc(const ObjectRef& object, uint64_t offset, uint64_t length) {
  return ask(*driver_, protocol::CrcRequest{.object = object, .offset = offset, .length = length},
             [](const protocol::CrcResponse& response) {
               return StoredCrc{response.length, response.crc};
             });
}
Result<ObjectId> Client::clone(const ObjectRef& from, const ObjectRef& to,
                               const CloneOptions& options) {
  return ask(*driver_,
             protocol::CowRequest{.from = from,
                                  .to = to,
                                  .from_offset = options.from_offset,
                                  .length = options.length,
                                  .to_offset = options.to_offset,
                                  .allow_existing = options.allow_existing,
                                  .to_name = options.to_name},
             [](const protocol::CowResponse& response) { return response.object; });
}
Result<void> Client::flush(const ObjectRef& object) {
  return ask(*driver_, protocol::FlushRequest{.object = object}, kNothing);
}
Result<uint64_t> Client::register_range(const ObjectRef& object, uint64_t offset, uint64_t length,
                                        protocol::RangeAccess access) {
  return ask(*driver_,
             protocol::RangeRegisterRequest{
                 .object = object, .offset = offset, .length = length, .access = access},
             [](const protocol::RangeRegisterResponse& response) { return response.range; });
}
Result<void> Client::unregister_range(uint64_t range) {
  return ask(*driver_, protocol::RangeUnregisterRequest{.range = range}, kNothing);
}

// --- reads and writes

namespace {

uint64_t bytes_in(std::span<const std::span<uint8_t>> memory) {
  uint64_t bytes = 0;
  for (const auto& piece : memory) bytes += piece.size();
  return bytes;
}

// The pieces of memory [from, from + bytes) of these.
std::vector<std::span<uint8_t>> part_of(std::span<const std::span<uint8_t>> memory, uint64_t from,
                                        uint64_t bytes) {
  std::vector<std::span<uint8_t>> part;
  for (auto piece : memory) {
    const uint64_t skipped = std::min<uint64_t>(from, piece.size());
    from -= skipped;
    piece = piece.subspan(skipped);
    piece = piece.first(std::min<uint64_t>(bytes, piece.size()));
    bytes -= piece.size();
    if (!piece.empty()) part.push_back(piece);
  }
  return part;
}

bool spoilt(const Completion& completion) {
  return completion.outcome == Outcome::kCorrupted ||
         (completion.outcome == Outcome::kDone &&
          completion.status == protocol::Status::kCorrupted);
}

uint32_t crc_of(Client::ConstMemory memory) {
  uint32_t state = kCrc32Start;
  for (const auto& piece : memory) state = crc32_msb_update(state, piece);
  return crc32_finish(state);
}

// A read or write whose data arrived spoilt is done again, once: a write whole, from memory that is
// registered anew, and with the first CRC, so that memory that has changed meanwhile is not stored;
// a read in pieces that go with the responses, which the server verifies, so that
// damage of the store is told by its place.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  Transfer(Driver& driver, Driver::Io io, Done done)
      : driver_(driver), io_(std::move(io)), name_(io_.object.name), done_(std::move(done)) {
    io_.object.name = name_;
  }

  void start() {
    driver_.transfer(io_, [self = shared_from_this()](Completion&& first) {
      if (!spoilt(first)) return self->finish(first);
      ++self->driver_.repeated;
      self->driver_.forget(self->io_);
      self->io_.write ? self->write_again() : self->read_piece();
    });
  }

 private:
  void write_again() {
    driver_.transfer(io_,
                     [self = shared_from_this()](Completion&& second) { self->finish(second); });
  }
  void read_piece() {
    const uint64_t left = bytes_in(io_.memory) - read_;
    Driver::Io piece = io_;
    piece.offset = io_.offset + read_;
    piece.memory =
        part_of(io_.memory, read_, std::min<uint64_t>(left, driver_.limits().inline_bytes));
    const uint64_t wanted = bytes_in(piece.memory);
    driver_.transfer(piece, [self = shared_from_this(), wanted](Completion&& completion) {
      if (!good(completion)) return self->finish(completion);
      self->read_ += completion.length;
      const bool more = completion.length == wanted && self->read_ < bytes_in(self->io_.memory);
      if (more) return self->read_piece();
      completion.length = self->read_;
      completion.crc = self->crc_of_read();
      self->finish(completion);
    });
  }
  [[nodiscard]] uint32_t crc_of_read() const {
    uint32_t state = kCrc32Start;
    for (const auto& piece : part_of(io_.memory, 0, read_)) state = crc32_msb_update(state, piece);
    return crc32_finish(state);
  }
  void finish(const Completion& completion) {
    if (good(completion))
      return done_(Transferred{completion.length, completion.object, completion.crc});
    done_(fail(error_of(completion, driver_.why_lost())));
  }

  Driver& driver_;
  Driver::Io io_;
  std::string name_;
  Done done_;
  uint64_t read_ = 0;  // in pieces
};

void begin(Driver& driver, Driver::Io io, Done done) {
  std::make_shared<Transfer>(driver, std::move(io), std::move(done))->start();
}
Result<Transferred> wait_for(Driver& driver, const Driver::Io& io) {
  return driver.await<Result<Transferred>>([&](auto done) { begin(driver, io, std::move(done)); });
}

// The server reads it, and so does the client: nobody writes there.
std::vector<std::span<uint8_t>> unconst(Client::ConstMemory from) {
  std::vector<std::span<uint8_t>> memory;
  memory.reserve(from.size());
  for (const auto& piece : from) {
    memory.emplace_back(const_cast<uint8_t*>(piece.data()), piece.size());
  }
  return memory;
}

Driver::Io read_of(const ObjectRef& object, uint64_t offset, Client::Memory to,
                   const ReadOptions& options) {
  return {.object = object,
          .offset = offset,
          .memory = {to.begin(), to.end()},
          .caller_checks = options.caller_checks};
}
Driver::Io write_of(const ObjectRef& object, uint64_t offset, Client::ConstMemory from,
                    const WriteOptions& options) {
  return {.write = true,
          .repeatable = options.repeatable,
          .object = object,
          .offset = offset,
          .memory = unconst(from),
          .crc = options.crc ? *options.crc : crc_of(from)};
}

}  // namespace

Result<Transferred> Client::read(const ObjectRef& object, uint64_t offset, Memory to,
                                 const ReadOptions& options) {
  return wait_for(*driver_, read_of(object, offset, to, options));
}
Result<Transferred> Client::read(const ObjectRef& object, uint64_t offset, std::span<uint8_t> to,
                                 const ReadOptions& options) {
  return wait_for(*driver_, read_of(object, offset, Memory(&to, 1), options));
}
Result<Transferred> Client::write(const ObjectRef& object, uint64_t offset, ConstMemory from,
                                  const WriteOptions& options) {
  return wait_for(*driver_, write_of(object, offset, from, options));
}
Result<Transferred> Client::write(const ObjectRef& object, uint64_t offset,
                                  std::span<const uint8_t> from, const WriteOptions& options) {
  return write(object, offset, ConstMemory(&from, 1), options);
}
void Client::read_async(const ObjectRef& object, uint64_t offset, Memory to,
                        const ReadOptions& options, Done done) {
  begin(*driver_, read_of(object, offset, to, options), std::move(done));
}
void Client::write_async(const ObjectRef& object, uint64_t offset, ConstMemory from,
                         const WriteOptions& options, Done done) {
  begin(*driver_, write_of(object, offset, from, options), std::move(done));
}

}  // namespace verbena::client
