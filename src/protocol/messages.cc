// SPDX-License-Identifier: Apache-2.0
#include "protocol/messages.h"

#include <array>
#include <type_traits>
#include <utility>

namespace verbena::protocol {
namespace {

// A row of the table of types; all null: no such type.
struct TypeRow {
  const char* name = nullptr;
  Decoded<Request> (*request)(std::span<const uint8_t>, const Seal&) = nullptr;
  Decoded<Response> (*response)(std::span<const uint8_t>, const Seal&) = nullptr;
};
using TypeTable = std::array<TypeRow, kTypeLimit>;

template <typename Any, typename M>
Decoded<Any> decode_as(std::span<const uint8_t> message, const Seal& seal) {
  Decoded<M> decoded = [&] {
    if constexpr (std::is_same_v<M, IoRequest>) {
      return decode_io_request(message, seal);
    } else if constexpr (std::is_same_v<M, IoResponse>) {
      return decode_io_response(message, seal);
    } else {
      return decode<M>(message, seal);
    }
  }();
  if (!decoded) return fail(decoded.error());
  return Any(std::in_place_type<M>, std::move(*decoded));
}

constexpr TypeRow& row_of(TypeTable& table, MessageType type) {
  return table[static_cast<size_t>(type)];
}

template <typename R>
constexpr void add_request(TypeTable& table) {
  if constexpr (std::is_same_v<R, IoRequest>) {
    row_of(table, R::kReadType) = {R::kReadName, decode_as<Request, R>, nullptr};
    row_of(table, R::kWriteType) = {R::kWriteName, decode_as<Request, R>, nullptr};
  } else {
    row_of(table, R::kType) = {R::kName, decode_as<Request, R>, nullptr};
  }
}
template <typename M>
constexpr void add_response(TypeTable& table) {
  row_of(table, M::kType) = {M::kName, nullptr, decode_as<Response, M>};
}
template <typename... R>
constexpr void add_requests(TypeTable& table, std::type_identity<std::variant<R...>>) {
  (add_request<R>(table), ...);
}
template <typename... R>
constexpr void add_responses(TypeTable& table, std::type_identity<std::variant<R...>>) {
  (add_response<R>(table), ...);
}

constexpr TypeTable kTypes = [] {
  TypeTable table{};
  add_requests(table, std::type_identity<Request>{});
  add_responses(table, std::type_identity<Response>{});
  row_of(table, ConnectInit::kType).name = ConnectInit::kName;
  row_of(table, AssignId::kType).name = AssignId::kName;
  row_of(table, BadAuth::kType).name = BadAuth::kName;
  row_of(table, FatalError::kType).name = FatalError::kName;
  return table;
}();

[[nodiscard]] const TypeRow* find_row(MessageType type) {
  const auto number = static_cast<uint64_t>(type);
  if (number >= kTypeLimit || kTypes[number].name == nullptr) return nullptr;
  return &kTypes[number];
}

template <typename Any>
[[nodiscard]] Decoded<Any> decode_any(std::span<const uint8_t> message, const Seal& seal,
                                      Decoded<Any> (*TypeRow::*decoder)(std::span<const uint8_t>,
                                                                        const Seal&)) {
  const auto header = decode_header(message);
  if (!header) return fail(header.error());
  const TypeRow* row = find_row(header->type);
  if (row == nullptr) return fail(Fault::kType);
  if (row->*decoder == nullptr) return fail(Fault::kUnexpected);
  return (row->*decoder)(message, seal);
}

}  // namespace

Decoded<Request> decode_request(std::span<const uint8_t> message, const Seal& seal) {
  return decode_any<Request>(message, seal, &TypeRow::request);
}

Decoded<Response> decode_response(std::span<const uint8_t> message, const Seal& seal) {
  return decode_any<Response>(message, seal, &TypeRow::response);
}

Decoded<size_t> encode(const Request& request, const Address& address, const Seal& seal,
                       std::span<uint8_t> room) {
  return std::visit([&](const auto& r) { return encode(r, address, seal, room); }, request);
}

Decoded<size_t> encode(const Response& response, const Address& address, const Seal& seal,
                       std::span<uint8_t> room) {
  return std::visit([&](const auto& r) { return encode(r, address, seal, room); }, response);
}

uint64_t id_of(const Request& request) {
  return std::visit([](const auto& r) { return r.id; }, request);
}

uint64_t oldest_of(const Request& request) {
  return std::visit([](const auto& r) { return r.oldest; }, request);
}

Effect effect_of(const Request& request) {
  return std::visit(
      []<typename R>(const R& r) {
        if constexpr (std::is_same_v<R, IoRequest>) {
          return r.effect();
        } else {
          return R::kEffect;
        }
      },
      request);
}

MessageType type_of(const Request& request) {
  return std::visit(
      []<typename R>(const R& r) {
        if constexpr (std::is_same_v<R, IoRequest>) {
          return r.kind == IoKind::kRead ? R::kReadType : R::kWriteType;
        } else {
          return R::kType;
        }
      },
      request);
}

uint64_t id_of(const Response& response) {
  return std::visit([](const auto& r) { return r.id; }, response);
}

Status status_of(const Response& response) {
  return std::visit([](const auto& r) { return r.status; }, response);
}

std::string_view detail_of(const Response& response) {
  return std::visit([](const auto& r) { return r.detail; }, response);
}

Response failure_of(const Request& request, Status status, std::string_view detail) {
  return std::visit(
      [&]<typename R>(const R& r) -> Response {
        typename R::Response response{};
        response.id = r.id;
        response.status = status;
        response.detail = detail.substr(0, kMaxTextBytes);
        if constexpr (std::is_same_v<R, IoRequest>) {
          response.kind = r.kind;
          response.plain = r.plain;
          response.offset = r.offset;
          if (r.object.kind == ObjectRef::Kind::kId) response.object = r.object.id;
        }
        return response;
      },
      request);
}

bool answers(const Response& response, MessageType request) {
  if (std::holds_alternative<Refused>(response)) return true;
  if (const auto* io = std::get_if<IoResponse>(&response)) {
    return request == (io->kind == IoKind::kRead ? IoRequest::kReadType : IoRequest::kWriteType);
  }
  // The other responses' numbers follow those of their requests.
  const MessageType type = std::visit([]<typename M>(const M&) { return M::kType; }, response);
  return static_cast<uint64_t>(type) == static_cast<uint64_t>(request) + 1;
}

const char* name_of(MessageType type) {
  const TypeRow* row = find_row(type);
  return row == nullptr ? "unknown" : row->name;
}

}  // namespace verbena::protocol
