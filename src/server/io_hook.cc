// SPDX-License-Identifier: Apache-2.0
// Reads and writes: inline data is copied between the message and the chunks, with its CRC in the
// same pass; more than that moves by RDMA between the client's memory and the chunks themselves.
#include <cstring>

#include "server/hook.h"

namespace verbena::server {
namespace {

using protocol::IoKind;
using protocol::IoRequest;
using protocol::IoResponse;

class IoHook final : public Hook {
 public:
  [[nodiscard]] Where where() const override { return Where::kEither; }

  [[nodiscard]] Next run(Call& call, store::Store& store) const override {
    const auto& request = call.as<IoRequest>();
    const auto object = find(request.object, call, store);
    if (!object) return failed(call, object.error());
    call.object = *object;
    if (request.kind == IoKind::kRead) return read(call, request, store);
    if (!request.segments.empty()) return receive(call, request, store);
    const auto done =
        store.write(*object, request.offset, request.payload, call.session, request.crc);
    return done ? answer(call, request.length, request.crc) : failed(call, done.error());
  }

  [[nodiscard]] Next run_moved(Call& call, store::Store& /*store*/) const override {
    const auto& request = call.as<IoRequest>();
    if (request.kind == IoKind::kRead) return answer(call, call.read.length(), call.read.crc());
    // The fabric has stored the CRCs of whole chunks with their data.
    const auto done = call.write.commit({.stored_in_chunks = true, .message = request.crc});
    return done ? answer(call, request.length, request.crc) : failed(call, done.error());
  }

 private:
  static Next read(Call& call, const IoRequest& request, store::Store& store) {
    if (!request.segments.empty()) return send(call, request, store);
    IoResponse& response = respond(call);
    response.data_inline = true;
    const auto bytes = store.read(call.object, request.offset,
                                  payload(call, response, request.length), &response.crc);
    if (!bytes) return failed(call, bytes.error());
    response.length = *bytes;
    return Next::kAnswer;
  }

  static Next send(Call& call, const IoRequest& request, store::Store& store) {
    auto prepared = store.prepare_read(call.object, request.offset, request.length);
    if (!prepared) return failed(call, prepared.error());
    if (prepared->length() > store::kDataBytes) {
      call.read = std::move(*prepared);
      return Next::kSend;
    }
    // So little goes with the response; it may also be that it has no chunk.
    IoResponse& response = respond(call);
    response.data_inline = true;
    response.length = prepared->length();
    response.crc = prepared->crc();
    uint8_t* to = payload(call, response, response.length).data();
    for (const store::Scatter& piece : prepared->pieces()) {
      for (uint32_t i = 0; i < piece.count; ++i, to += piece.bytes) {
        if (piece.memory == nullptr) {
          std::memset(to, 0, piece.bytes);
        } else {
          std::memcpy(to, piece.memory + size_t{i} * piece.stride, piece.bytes);
        }
      }
    }
    return Next::kAnswer;
  }

  // Where inline data belongs in the response.
  static std::span<uint8_t> payload(const Call& call, const IoResponse& response, uint64_t length) {
    return call.room.subspan(protocol::payload_offset(response)).first(length);
  }

  static Next receive(Call& call, const IoRequest& request, store::Store& store) {
    auto prepared = store.prepare_write(call.object, request.offset, request.length, call.session);
    if (!prepared) return failed(call, prepared.error());
    call.write = std::move(*prepared);
    return Next::kReceive;
  }

  static IoResponse& respond(Call& call) {
    const auto& request = call.as<IoRequest>();
    return call.response.emplace<IoResponse>(IoResponse{.kind = request.kind,
                                                        .plain = request.plain,
                                                        .id = request.id,
                                                        .object = call.object,
                                                        .offset = request.offset});
  }
  static Next answer(Call& call, uint64_t length, uint32_t crc) {
    IoResponse& response = respond(call);
    response.length = length;
    response.crc = crc;
    return Next::kAnswer;
  }
  static Next failed(Call& call, const store::Error& error) {
    call.fail(error);
    return Next::kAnswer;
  }
};

}  // namespace

std::unique_ptr<Hook> make_io_hook() { return std::make_unique<IoHook>(); }

}  // namespace verbena::server
