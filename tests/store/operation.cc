// SPDX-License-Identifier: Apache-2.0
#include "operation.h"

#include <algorithm>
#include <cstring>

#include "base/block_sums.h"
#include "base/endian.h"

namespace verbena::store::trial {
namespace {

using Kind = Operation::Kind;
using Device = Operation::Device;

template <typename T>
Refusal refusal_of(const Result<T>& result, std::string* why) {
  if (result.has_value()) return {};
  if (why != nullptr) *why = result.error().what;
  return result.error().code;
}

CloneRequest request_of(const Operation& operation) {
  return {.from = operation.id,
          .to = operation.to,
          .from_offset = operation.offset,
          .length = operation.length,
          .to_offset = operation.to_offset,
          .allow_existing = operation.allow_existing,
          .to_name = operation.name};
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kCreate:        return "create";
    case Kind::kRemove:        return "remove";
    case Kind::kRename:        return "rename";
    case Kind::kReplace:       return "replace";
    case Kind::kTruncate:      return "truncate";
    case Kind::kWrite:         return "write";
    case Kind::kPreparedWrite: return "prepared write";
    case Kind::kClone:         return "clone";
    case Kind::kFlush:         return "flush";
    case Kind::kCheckpoint:    return "checkpoint";
    case Kind::kCompact:       return "compact";
  }
  return "?";
}

// The CRC of each whole chunk goes where a device with block signatures puts it.
void store_chunk_crcs(std::span<const Scatter> pieces, bool wrong) {
  for (const Scatter& piece : pieces) {
    if (piece.bytes != kDataBytes || piece.stride != kChunkBytes) continue;
    for (uint32_t i = 0; i < piece.count; ++i) {
      uint8_t* const chunk = piece.memory + size_t{i} * piece.stride;
      store_be32(chunk + 4084, crc({chunk, kDataBytes}) ^ (wrong ? 1u : 0u));
    }
  }
}

bool has_whole_chunk(std::span<const Scatter> pieces) {
  return std::any_of(pieces.begin(), pieces.end(), [](const Scatter& piece) {
    return piece.bytes == kDataBytes && piece.stride == kChunkBytes && piece.count != 0;
  });
}

Refusal write_prepared(Store& store, const Operation& operation, std::string* why) {
  auto prepared = store.prepare_write(operation.id, operation.offset, operation.length);
  if (!prepared.has_value()) return refusal_of(prepared, why);
  const std::vector<uint8_t> bytes = bytes_of(operation);
  scatter(prepared->pieces(), bytes);
  PreparedWrite::Crcs crcs;
  const uint32_t message = crc(bytes);
  switch (operation.device) {
    case Device::kPlain:        break;
    case Device::kCrcInChunks:  crcs.stored_in_chunks = true; break;
    case Device::kMessageCrc:   crcs.message = message; break;
    case Device::kBothCrcs:     crcs = {.stored_in_chunks = true, .message = message}; break;
    case Device::kWrongMessage: crcs.message = message ^ 0x10; break;
    case Device::kWrongChunkCrc:
      // Where no chunk is whole, the message's stands for it.
      crcs = {.stored_in_chunks = true,
              .message = has_whole_chunk(prepared->pieces()) ? message : message ^ 1};
      break;
    case Device::kNeverCommitted: return Code::kDamaged;
  }
  if (crcs.stored_in_chunks) {
    store_chunk_crcs(prepared->pieces(), operation.device == Device::kWrongChunkCrc);
  }
  return refusal_of(prepared->commit(crcs), why);
}

}  // namespace

uint32_t crc(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

void scatter(std::span<const Scatter> pieces, std::span<const uint8_t> bytes) {
  for (const Scatter& piece : pieces) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      const size_t count = std::min<size_t>(piece.bytes, bytes.size());
      std::memcpy(piece.memory + size_t{i} * piece.stride, bytes.data(), count);
      bytes = bytes.subspan(count);
    }
  }
}

std::vector<uint8_t> gather(std::span<const Scatter> pieces) {
  std::vector<uint8_t> bytes;
  for (const Scatter& piece : pieces) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      if (piece.memory == nullptr) {  // a hole
        bytes.resize(bytes.size() + piece.bytes);
        continue;
      }
      const uint8_t* const from = piece.memory + size_t{i} * piece.stride;
      bytes.insert(bytes.end(), from, from + piece.bytes);
    }
  }
  return bytes;
}

std::string describe(const Operation& operation) {
  std::string line = name_of(operation.kind);
  const auto number = [&line](const char* what, uint64_t value) {
    line += std::string(" ") + what + " " + std::to_string(value);
  };
  if (makes_durable(operation)) return line;
  line += " " + text(operation.id);
  if (operation.kind == Kind::kReplace) line += " by " + text(operation.to);
  if (operation.kind == Kind::kTruncate) number("to", operation.length);
  if (operation.kind == Kind::kWrite || operation.kind == Kind::kPreparedWrite ||
      operation.kind == Kind::kClone) {
    number("offset", operation.offset);
    number("length", operation.length);
  }
  if (operation.kind == Kind::kPreparedWrite) {
    number("device", static_cast<uint64_t>(operation.device));
  }
  if (operation.kind == Kind::kClone) {
    line += " to " + text(operation.to);
    number("offset", operation.to_offset);
    if (operation.allow_existing) line += " that may exist";
  }
  if (!operation.name.empty()) {
    line += operation.name.size() <= 32
                ? " '" + operation.name + "'"
                : " a name of " + std::to_string(operation.name.size()) + " bytes";
  }
  return line;
}

std::string describe(const Refusal& refusal) {
  return refusal.has_value() ? store::name_of(*refusal) : "done";
}

std::vector<uint8_t> bytes_of(const Operation& operation) {
  std::vector<uint8_t> bytes(operation.length);
  if (operation.data_seed % 16 == 0) return bytes;
  SeededRandom random(operation.data_seed);
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  for (; at < bytes.size(); ++at) bytes[at] = static_cast<uint8_t>(random.next());
  return bytes;
}

Refusal apply(Model& model, const Operation& operation) {
  switch (operation.kind) {
    case Kind::kCreate:   return model.create(operation.id, operation.name);
    case Kind::kRemove:   return model.remove(operation.id);
    case Kind::kRename:   return model.rename(operation.id, operation.name);
    case Kind::kReplace:  return model.replace(operation.id, operation.to);
    case Kind::kTruncate: return model.truncate(operation.id, operation.length);
    case Kind::kPreparedWrite:
      if (operation.device == Device::kWrongMessage || operation.device == Device::kWrongChunkCrc ||
          operation.device == Device::kNeverCommitted) {
        if (model.find(operation.id) == nullptr) return Code::kNotFound;
        return Code::kDamaged;
      }
      return model.write(operation.id, operation.offset, bytes_of(operation), true);
    case Kind::kWrite:      return model.write(operation.id, operation.offset, bytes_of(operation));
    case Kind::kClone:      return model.clone(request_of(operation));
    case Kind::kFlush:
    case Kind::kCheckpoint:
    case Kind::kCompact:    return {};
  }
  return {};
}

Refusal apply(Store& store, const Operation& operation, std::string* why) {
  switch (operation.kind) {
    case Kind::kCreate:   return refusal_of(store.create_object(operation.id, operation.name), why);
    case Kind::kRemove:   return refusal_of(store.remove(operation.id), why);
    case Kind::kRename:   return refusal_of(store.rename(operation.id, operation.name), why);
    case Kind::kReplace:  return refusal_of(store.replace(operation.id, operation.to), why);
    case Kind::kTruncate: return refusal_of(store.truncate(operation.id, operation.length), why);
    case Kind::kWrite:
      return refusal_of(store.write(operation.id, operation.offset, bytes_of(operation)), why);
    case Kind::kPreparedWrite: return write_prepared(store, operation, why);
    case Kind::kClone:         return refusal_of(store.clone(request_of(operation)), why);
    case Kind::kFlush:         return refusal_of(store.flush(), why);
    case Kind::kCheckpoint:    return refusal_of(store.checkpoint(), why);
    case Kind::kCompact:       return refusal_of(store.compact(), why);
  }
  return {};
}

}  // namespace verbena::store::trial
