// SPDX-License-Identifier: Apache-2.0
// Reads and writes of one request each.
#include <algorithm>
#include <utility>

#include "base/block_sums.h"
#include "client/answers.h"
#include "client/client.h"
#include "client/driver.h"

namespace verbena::client {

using session::Completion;
using session::Outcome;

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
