// SPDX-License-Identifier: Apache-2.0
// Messages that consist of fields alone: every one but reads and writes (io.h).
//
//   | header 32 | fields ... | head CRC u32 |
//
// The head CRC covers the header without its last word, and the fields. A struct is such a message
// if it has kType, kName and fields(); see object_messages.h for examples. Decoding checks, in this
// order: type, fields, length, head CRC, key or tag.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "protocol/fields.h"
#include "protocol/header.h"
#include "protocol/status.h"

namespace verbena::protocol {

// What a request changes, and so what becomes of it when its outcome is in doubt (docs/protocol.md,
// "What is promised").
enum class Effect : uint8_t {
  kNone,     // may be executed any number of times
  kSession,  // changes what ends with the session
  kStore,    // executed at most once
};

// An object, by id or by name, or the session's default object.
struct ObjectRef {
  enum class Kind : uint8_t { kDefault = 0, kId = 1, kName = 2 };
  Kind kind = Kind::kDefault;
  ObjectId id{};
  std::string_view name{};

  [[nodiscard]] static ObjectRef by(ObjectId id) { return {Kind::kId, id, {}}; }
  [[nodiscard]] static ObjectRef by(std::string_view name) { return {Kind::kName, {}, name}; }
  bool operator==(const ObjectRef&) const = default;

  // Without the kind, which an I/O request has in its type byte.
  static void target(auto& self, auto& f) {
    if (self.kind == Kind::kId) f(self.id);
    if (self.kind == Kind::kName) f.name(self.name);
  }
  static void fields(auto& self, auto& f) {
    f(self.kind);
    target(self, f);
  }
};
[[nodiscard]] constexpr bool is_defined(ObjectRef::Kind kind) {
  return kind <= ObjectRef::Kind::kName;
}

template <typename M>
concept FieldMessage = requires(M& m, FieldReader& f) {
  { M::kType } -> std::convertible_to<MessageType>;
  M::fields(m, f);
};

namespace detail {
void begin_message(FieldWriter& writer, MessageType type, const Address& address);
// Writes the head CRC, then the last word; the message's length.
[[nodiscard]] Decoded<size_t> end_message(FieldWriter& writer, std::span<uint8_t> room,
                                          const Seal& seal);
// Type, and room for the shortest message: the fields.
[[nodiscard]] Decoded<std::span<const uint8_t>> open_message(std::span<const uint8_t> message,
                                                             MessageType type);
[[nodiscard]] Decoded<void> check_head(const Parts& parts, const Seal& seal);
}  // namespace detail

// Into `room`: how many bytes.
template <FieldMessage M>
[[nodiscard]] Decoded<size_t> encode(const M& message, const Address& address, const Seal& seal,
                                     std::span<uint8_t> room) {
  FieldWriter writer(room);
  detail::begin_message(writer, M::kType, address);
  M::fields(message, writer);
  return detail::end_message(writer, room, seal);
}

template <FieldMessage M>
[[nodiscard]] Decoded<M> decode(std::span<const uint8_t> message, const Seal& seal) {
  const auto fields = detail::open_message(message, M::kType);
  if (!fields) return fail(fields.error());
  M decoded{};
  FieldReader reader(*fields);
  M::fields(decoded, reader);
  if (!reader.ok()) return fail(reader.fault());
  if (!reader.rest().empty()) return fail(Fault::kLong);
  const Parts parts{.message = message, .head_end = message.size() - kCrcBytes, .crc_bytes = 0};
  if (const auto good = detail::check_head(parts, seal); !good) return fail(good.error());
  return decoded;
}

// A message of a type that is not known here: the sender is genuine, and its id says what to
// refuse.
struct UnknownMessage {
  MessageType type{};
  uint64_t id = 0;
};
[[nodiscard]] Decoded<UnknownMessage> decode_unknown(std::span<const uint8_t> message,
                                                     const Seal& seal);

}  // namespace verbena::protocol
