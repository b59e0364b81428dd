// SPDX-License-Identifier: Apache-2.0
// Any bytes, taken three ways: as a transport packet, as an Ethernet frame, as a capture file.
// Nothing may be read outside them, and whatever is taken apart must go together again. The corpus
// in tests/corpus/packet holds some of each.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "wire/describe.h"
#include "wire/encode.h"
#include "wire/extended_ack.h"
#include "wire/icrc.h"
#include "wire/network.h"
#include "wire/packet.h"
#include "wire/pcap.h"

namespace verbena::wire {
namespace {

// What it says must be said again by one that is written anew.
void take_as_extended_ack(std::span<const uint8_t> payload) {
  const auto ack = ExtendedAck::read(payload);
  if (!ack) return;
  std::array<uint8_t, ExtendedAck::kMaxBytes> bytes;
  ExtendedAckWriter writer(bytes);
  for (uint32_t i = 0; i < ack->words(); ++i) writer.append(ack->word(i));
  const auto again = ExtendedAck::read(writer.finish(ack->room, ack->duplicate));
  VERBENA_CHECK(again && again->room == ack->room && again->duplicate == ack->duplicate);
  VERBENA_CHECK(std::ranges::equal(again->bitmap, ack->bitmap));
}

void take_as_packet(std::span<const uint8_t> bytes) {
  const auto packet = parse(bytes);
  if (!packet) {
    VERBENA_CHECK(packet.error() < ParseError::kCount);
    return;
  }
  VERBENA_CHECK(!describe(*packet).empty());
  const std::vector<uint8_t> again = encode(decode(*packet), packet->payload);
  const auto covered = bytes.first(bytes.size() - kIcrcBytes);
  const size_t pad = packet->bth.pad_bytes;  // ours is zero, theirs may hold anything
  VERBENA_CHECK(again.size() == covered.size());
  VERBENA_CHECK(
      std::equal(again.begin(), again.end() - static_cast<ptrdiff_t>(pad), covered.begin()));
  take_as_extended_ack(packet->payload);
}

// An identification that is found must be the right one; one that was put there must be found.
void solve(const IcrcFlow& flow, std::span<const uint8_t> packet) {
  if (packet.size() < Bth::kBytes + kIcrcBytes) {
    VERBENA_CHECK(!icrc_solve(flow, packet));
    return;
  }
  const auto covered = packet.first(packet.size() - kIcrcBytes);
  if (const std::optional<uint16_t> id = icrc_solve(flow, packet)) {
    IcrcFlow with_id = flow;
    with_id.ipv4_id = *id;
    VERBENA_CHECK(icrc(with_id, covered) == load_icrc(covered.data() + covered.size()));
  }
  std::vector<uint8_t> sealed(packet.begin(), packet.end());
  store_icrc(sealed.data() + covered.size(), icrc(flow, covered));
  VERBENA_CHECK(icrc_solve(flow, sealed) == (flow.is_ipv4() ? flow.ipv4_id : 0));
}

void take_as_frame(std::span<const uint8_t> bytes) {
  const auto frame = dissect(bytes);
  if (!frame) {
    VERBENA_CHECK(frame.error() < DissectError::kCount);
    return;
  }
  std::vector<uint8_t> again(frame->bytes());
  write_frame(*frame, again);
  VERBENA_CHECK(std::ranges::equal(again, bytes));
  take_as_packet(frame->transport);
  solve(frame->flow, frame->transport);
}

void take_as_capture(std::span<const uint8_t> bytes) {
  auto reader = PcapReader::open(bytes);
  if (!reader) return;
  for (auto record = reader->next(); record && *record; record = reader->next()) {
    take_as_frame((*record)->frame);
  }
}

}  // namespace
}  // namespace verbena::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  verbena::wire::take_as_packet(bytes);
  verbena::wire::take_as_extended_ack(bytes);
  verbena::wire::take_as_frame(bytes);
  verbena::wire::take_as_capture(bytes);
  return 0;
}
