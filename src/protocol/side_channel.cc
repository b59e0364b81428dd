// SPDX-License-Identifier: Apache-2.0
#include "protocol/side_channel.h"

#include <algorithm>
#include <type_traits>

#include "base/block_sums.h"
#include "base/check.h"
#include "base/endian.h"
#include "protocol/io.h"

namespace verbena::protocol {
namespace {

template <size_t I = 0>
Decoded<SideMessage> decode_side(uint8_t type, std::span<const uint8_t> fields) {
  if constexpr (I == std::variant_size_v<SideMessage>) {
    return fail(Fault::kType);
  } else {
    using M = std::variant_alternative_t<I, SideMessage>;
    if (type != M::kType) return decode_side<I + 1>(type, fields);
    M message{};
    FieldReader reader(fields);
    M::fields(message, reader);
    if constexpr (std::is_same_v<M, Hello>) {
      if (reader.ok() && message.magic != kHelloMagic) return fail(Fault::kMagic);
      if (reader.ok() && message.min_version > message.max_version) return fail(Fault::kReserved);
    }
    if (!reader.ok()) return fail(reader.fault());
    if (!reader.rest().empty()) return fail(Fault::kLong);
    return message;
  }
}

}  // namespace

uint32_t number_of_fabric(std::string_view name) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(name.data()), name.size());
  const uint32_t crc = crc32_finish(crc32_msb_update(kCrc32Start, bytes));
  return crc == 0 ? 1 : crc;
}

bool usable(const Limits& limits) {
  return limits.inline_bytes <= kMaxInlineBytes && limits.window >= 1 &&
         limits.result_span >= limits.window && limits.segments >= 1 &&
         limits.segments <= kMaxSegments && limits.io_bytes >= limits.inline_bytes &&
         limits.keep_alive_ms >= 1 && limits.silence_ms > limits.keep_alive_ms;
}

const char* text_of(EndReason reason) {
  switch (reason) {
    case EndReason::kDone:     return "the client has no more requests";
    case EndReason::kShutdown: return "the server is shutting down";
    case EndReason::kVersion:  return "no common protocol version";
    case EndReason::kSecretRequired:
      return "the server requires a shared secret, and the client has none";
    case EndReason::kNoSecret:
      return "the client requires a shared secret, and the server has none";
    case EndReason::kWrongSecret: return "the shared secrets of client and server differ";
    case EndReason::kBusy:        return "the server has too many sessions";
    case EndReason::kTimeout:     return "nothing was heard for too long";
    case EndReason::kProtocol:    return "a message was not valid";
    case EndReason::kInUse:       return "the client instance has a session already";
    case EndReason::kReplaced:    return "the client instance has connected again";
    case EndReason::kFabric:      return "the queue pair failed";
    case EndReason::kNoFabric:    return "the server does not have this fabric";
  }
  return "unknown";
}

void append_frame(const SideMessage& message, std::vector<uint8_t>& to) {
  std::array<uint8_t, kFrameHeadBytes + kMaxFrameBytes> room;
  FieldWriter writer(room);
  writer(uint16_t{0});
  std::visit(
      [&]<typename M>(const M& m) {
        writer(M::kType);
        M::fields(m, writer);
      },
      message);
  VERBENA_CHECK(writer.ok());
  store_be16(room.data(), static_cast<uint16_t>(writer.used() - kFrameHeadBytes));
  to.insert(to.end(), room.begin(), room.begin() + static_cast<ptrdiff_t>(writer.used()));
}

std::vector<uint8_t> frame_of(const SideMessage& message) {
  std::vector<uint8_t> frame;
  append_frame(message, frame);
  return frame;
}

std::vector<uint8_t> with_length(std::span<const uint8_t> frame) {
  std::vector<uint8_t> bytes(kFrameHeadBytes + frame.size());
  store_be16(bytes.data(), static_cast<uint16_t>(frame.size()));
  std::ranges::copy(frame, bytes.begin() + kFrameHeadBytes);
  return bytes;
}

Decoded<SideMessage> decode_frame(std::span<const uint8_t> frame) {
  if (frame.empty()) return fail(Fault::kShort);
  return decode_side(frame[0], frame.subspan(1));
}

Decoded<std::span<const uint8_t>> FrameReader::next(std::span<const uint8_t>& bytes) {
  if (complete_) {
    held_.clear();
    complete_ = false;
  }
  const auto take_until = [&](size_t size) {
    const size_t count = std::min(bytes.size(), size - std::min(size, held_.size()));
    held_.insert(held_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    return held_.size() >= size;
  };
  if (!take_until(kFrameHeadBytes)) return std::span<const uint8_t>{};
  const size_t length = load_be16(held_.data());
  if (length == 0 || length > kMaxFrameBytes) return fail(Fault::kLength);
  if (!take_until(kFrameHeadBytes + length)) return std::span<const uint8_t>{};
  complete_ = true;
  return std::span<const uint8_t>(held_).subspan(kFrameHeadBytes);
}

}  // namespace verbena::protocol
