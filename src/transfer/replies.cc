// SPDX-License-Identifier: Apache-2.0
#include "transfer/replies.h"

#include <array>

#include "base/check.h"

namespace verbena::transfer {
namespace {

using protocol::Decoded;
using protocol::Fault;
using protocol::FieldReader;
using protocol::FieldWriter;

template <size_t I = 0>
Decoded<Reply> decode(uint8_t type, FieldReader& reader) {
  if constexpr (I == std::variant_size_v<Reply>) {
    return fail(Fault::kType);
  } else {
    using R = std::variant_alternative_t<I, Reply>;
    if (type != R::kType) return decode<I + 1>(type, reader);
    R reply{};
    R::fields(reply, reader);
    if (!reader.ok()) return fail(reader.fault());
    if (!reader.rest().empty()) return fail(Fault::kLong);
    return reply;
  }
}

}  // namespace

std::vector<uint8_t> encode(const Reply& reply) {
  std::array<uint8_t, kMaxReplyBytes> bytes;
  FieldWriter writer(bytes);
  std::visit(
      [&]<typename R>(const R& r) {
        writer(R::kType);
        R::fields(r, writer);
      },
      reply);
  VERBENA_CHECK(writer.ok());
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(writer.used())};
}

Decoded<Reply> decode_reply(std::span<const uint8_t> bytes) {
  FieldReader reader(bytes);
  uint8_t type = 0;
  reader(type);
  if (!reader.ok()) return fail(reader.fault());
  return decode(type, reader);
}

}  // namespace verbena::transfer
