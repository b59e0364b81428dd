// SPDX-License-Identifier: Apache-2.0
#include "wire/run.h"

#include <cstring>

#include "base/endian.h"

namespace verbena::wire {
namespace {

// The BTH up to and with the destination queue pair.
constexpr size_t kSameBytes = 8;
constexpr uint32_t kAckAndPsn = 8;  // byte offset of AckReq, reserved bits and the PSN
constexpr uint32_t kAckRequest = 0x80000000;

}  // namespace

Run find_run(std::span<const uint8_t> joined, uint32_t segment) {
  if (joined.size() < size_t{2} * segment) return {};
  const auto view = parse(joined.first(segment));
  if (!view || view->info->position != Position::kMiddle || view->bth.pad_bytes != 0 ||
      view->info->header_bytes != Bth::kBytes) {
    return {};
  }
  Run run{.first = *view, .packets = 1};
  uint32_t word = load_be32(joined.data() + kAckAndPsn) & ~kAckRequest;
  for (size_t at = segment; joined.size() - at >= segment; at += segment) {
    const uint8_t* const packet = joined.data() + at;
    if ((word & 0xffffff) == 0xffffff) break;  // PSNs begin again at 0
    ++word;
    if (std::memcmp(packet, joined.data(), kSameBytes) != 0 ||
        (load_be32(packet + kAckAndPsn) & ~kAckRequest) != word) {
      break;
    }
    ++run.packets;
  }
  return run;
}

}  // namespace verbena::wire
