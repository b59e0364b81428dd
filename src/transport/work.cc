// SPDX-License-Identifier: Apache-2.0
#include "transport/work.h"

namespace verbena::transport {

void PacketSink::send_run(const OutRun& run) {
  const uint32_t each = run.packet_payload();
  wire::Bth bth = run.first;
  uint8_t headers[wire::Bth::kBytes];
  for (uint32_t i = 0; i < run.packets; ++i) {
    const std::span<const uint8_t> payload = run.payload.subspan(uint64_t{i} * each, each);
    bth.ack_request = run.first.ack_request && i + 1 == run.packets;
    bth.write(headers);
    send({.path = run.path,
          .headers = headers,
          .payload = {&payload, 1},
          .payload_bytes = each,
          .copy_first = run.copy_first});
    bth.psn = bth.psn.next();
  }
}

}  // namespace verbena::transport
