// SPDX-License-Identifier: Apache-2.0
#include "cm/mad.h"

#include "base/endian.h"

namespace verbena::cm {
namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kClass = 0x07;
constexpr uint8_t kClassVersion = 2;
constexpr uint8_t kMethodSend = 3;

template <typename M, typename... Rest>
Result<Message, MadError> read_message(uint16_t attribute, const uint8_t* body) {
  if (attribute == static_cast<uint16_t>(M::kAttribute)) return Message(M::read(body));
  if constexpr (sizeof...(Rest) > 0) {
    return read_message<Rest...>(attribute, body);
  } else {
    return fail(MadError::kAttribute);
  }
}

template <typename... M>
Result<Message, MadError> read_any(std::variant<M...>* /*of these*/, uint16_t attribute,
                                   const uint8_t* body) {
  return read_message<M...>(attribute, body);
}

}  // namespace

Result<Mad, MadError> decode(std::span<const uint8_t> bytes) {
  if (bytes.size() != kMadBytes) return fail(MadError::kLength);
  const uint8_t* const p = bytes.data();
  if (p[0] != kBaseVersion || p[1] != kClass || p[2] != kClassVersion) {
    return fail(MadError::kClass);
  }
  if (p[3] != kMethodSend) return fail(MadError::kMethod);
  auto message = read_any(static_cast<Message*>(nullptr), load_be16(p + 16), p + MadHeader::kBytes);
  if (!message) return fail(message.error());
  return Mad{{.status = load_be16(p + 4),
              .class_specific = load_be16(p + 6),
              .transaction = load_be64(p + 8),
              .modifier = load_be32(p + 20)},
             *message};
}

template <typename M>
void encode(const MadHeader& header, const M& message, MadBuffer& to) {
  uint8_t* const p = to.data();
  p[0] = kBaseVersion;
  p[1] = kClass;
  p[2] = kClassVersion;
  p[3] = kMethodSend;
  store_be16(p + 4, header.status);
  store_be16(p + 6, header.class_specific);
  store_be64(p + 8, header.transaction);
  store_be16(p + 16, static_cast<uint16_t>(M::kAttribute));
  store_be16(p + 18, 0);
  store_be32(p + 20, header.modifier);
  message.write(p + MadHeader::kBytes);
}

template void encode(const MadHeader&, const Req&, MadBuffer&);
template void encode(const MadHeader&, const Mra&, MadBuffer&);
template void encode(const MadHeader&, const Rej&, MadBuffer&);
template void encode(const MadHeader&, const Rep&, MadBuffer&);
template void encode(const MadHeader&, const Rtu&, MadBuffer&);
template void encode(const MadHeader&, const Dreq&, MadBuffer&);
template void encode(const MadHeader&, const Drep&, MadBuffer&);
template void encode(const MadHeader&, const SidrReq&, MadBuffer&);
template void encode(const MadHeader&, const SidrRep&, MadBuffer&);

void encode(const Mad& mad, MadBuffer& to) {
  std::visit([&](const auto& message) { encode(mad.header, message, to); }, mad.message);
}

}  // namespace verbena::cm
