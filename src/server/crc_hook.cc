// SPDX-License-Identifier: Apache-2.0
// The CRC of a range of an object, combined from those of its chunks.
#include <algorithm>

#include "server/hook.h"
#include "store/crc_parts.h"

namespace verbena::server {
namespace {

class CrcHook final : public HookFor<protocol::CrcRequest> {
  [[nodiscard]] Where where() const override { return Where::kWorker; }
  [[nodiscard]] store::Result<void> check(const Request& request, const Call& call,
                                          store::Store& store) const override {
    const auto info = find_info(request.object, call, store);
    return info ? store::Result<void>{} : fail(info.error());
  }
  [[nodiscard]] store::Result<void> execute(const Request& request, Response& response, Call& call,
                                            store::Store& store) const override {
    const auto object = find(request.object, call, store);
    if (!object) return fail(object.error());
    const uint64_t wanted = std::min(request.length == 0 ? kMost : request.length, kMost);
    response.crc = store::crc_of_zeros(0);
    while (response.length < wanted) {
      const uint64_t bytes = std::min<uint64_t>(wanted - response.length, store.piece_bytes());
      const auto piece = store.prepare_read(*object, request.offset + response.length, bytes);
      if (!piece) return fail(piece.error());
      response.crc = store::crc_join(response.crc, piece->crc(), piece->length());
      response.length += piece->length();
      if (piece->length() < bytes) break;
    }
    return {};
  }
  // A worker is not kept for longer than this takes. The object is locked for one piece at a time,
  // so that those who write to it do not wait either.
  static constexpr uint64_t kMost = uint64_t{256} << 20;
};

}  // namespace

std::unique_ptr<Hook> make_crc_hook() { return std::make_unique<CrcHook>(); }

}  // namespace verbena::server
