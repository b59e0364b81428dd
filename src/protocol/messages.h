// SPDX-License-Identifier: Apache-2.0
// The list of all requests. To add one: write its struct with its Response, and add it to Request
// below. Everything else (decoding by type, names, effects) follows from the list.
//
// Views in a decoded message point into its bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "protocol/behind_messages.h"
#include "protocol/control_messages.h"
#include "protocol/crc_messages.h"
#include "protocol/io.h"
#include "protocol/object_messages.h"
#include "protocol/range_messages.h"

namespace verbena::protocol {

using Request = std::variant<Ping,                  //
                             IoRequest,             //
                             FlushRequest,          //
                             CreateRequest,         //
                             CowRequest,            //
                             DeleteRequest,         //
                             RenameRequest,         //
                             TruncateRequest,       //
                             ReplaceRequest,        //
                             StatRequest,           //
                             ListRequest,           //
                             CrcRequest,            //
                             BehindRequest,         //
                             RangeRegisterRequest,  //
                             RangeUnregisterRequest>;

namespace detail {
template <typename Requests>
struct ResponsesTo;
template <typename... R>
struct ResponsesTo<std::variant<R...>> {
  using Type = std::variant<typename R::Response..., Refused>;
};
}  // namespace detail
// The response to the request of the same index, and REFUSED.
using Response = detail::ResponsesTo<Request>::Type;

// kType: not a request (of this version); kUnexpected: a known message, but not a request.
[[nodiscard]] Decoded<Request> decode_request(std::span<const uint8_t> message, const Seal& seal);
[[nodiscard]] Decoded<Response> decode_response(std::span<const uint8_t> message, const Seal& seal);
[[nodiscard]] Decoded<size_t> encode(const Request& request, const Address& address,
                                     const Seal& seal, std::span<uint8_t> room);
[[nodiscard]] Decoded<size_t> encode(const Response& response, const Address& address,
                                     const Seal& seal, std::span<uint8_t> room);

[[nodiscard]] uint64_t id_of(const Request& request);
[[nodiscard]] uint64_t oldest_of(const Request& request);
[[nodiscard]] Effect effect_of(const Request& request);
[[nodiscard]] MessageType type_of(const Request& request);
[[nodiscard]] uint64_t id_of(const Response& response);
[[nodiscard]] Status status_of(const Response& response);
[[nodiscard]] std::string_view detail_of(const Response& response);
// The response to `request` that says no more than this.
[[nodiscard]] Response failure_of(const Request& request, Status status, std::string_view detail);

// Whether a response is that to a request of this type.
[[nodiscard]] bool answers(const Response& response, MessageType request);

[[nodiscard]] const char* name_of(MessageType type);  // "CREATE", ...; "unknown"

}  // namespace verbena::protocol
