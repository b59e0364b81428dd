// SPDX-License-Identifier: Apache-2.0
#include "transport/work.h"

#include <vector>

namespace verbena::transport {

void PacketSink::send_run(const OutRun& run) {
  wire::Bth bth = run.first;
  uint8_t headers[wire::Bth::kBytes];
  RunPayload payload(run.payload);
  std::vector<std::span<const uint8_t>> pieces;
  for (uint32_t i = 0; i < run.packets; ++i) {
    pieces.clear();
    for (uint32_t left = run.packet_payload; left > 0;) {
      pieces.push_back(payload.next(left));
      left -= static_cast<uint32_t>(pieces.back().size());
    }
    bth.ack_request = run.first.ack_request && i + 1 == run.packets;
    bth.write(headers);
    send({.path = run.path,
          .headers = headers,
          .payload = pieces,
          .payload_bytes = run.packet_payload,
          .copy_first = run.copy_first});
    bth.psn = bth.psn.next();
  }
}

}  // namespace verbena::transport
