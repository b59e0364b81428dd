// SPDX-License-Identifier: Apache-2.0
// Writes the header chain of one outgoing packet and hands it to the link. Headers are put in the
// order they stand on the wire; finish() checks the chain against the opcode table.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "transport/core.h"
#include "wire/headers.h"
#include "wire/opcode.h"

namespace verbena::transport {

class PacketWriter {
 public:
  PacketWriter(const QueuePair& qp, wire::Service service, wire::Op op, wire::Psn psn) {
    bth_.opcode = wire::opcode_byte(service, op);
    bth_.dest_qp = qp.attr.dest_qpn;
    bth_.psn = psn;
  }

  wire::Bth& bth() { return bth_; }

  template <typename Header>
  PacketWriter& put(const Header& header) {
    header.write(bytes_.data() + used_);
    used_ += Header::kBytes;
    return *this;
  }

  void send(Core& core, const Path& path, std::span<const std::span<const uint8_t>> payload = {},
            uint32_t payload_bytes = 0, bool copy_first = false) {
    VERBENA_CHECK(used_ == wire::opcode_info(bth_.opcode).header_bytes);
    bth_.pad_bytes = static_cast<uint8_t>((4 - (payload_bytes & 3)) & 3);
    bth_.write(bytes_.data());
    core.count(Counter::kPacketsSent);
    core.link.send({.path = &path,
                    .headers = {bytes_.data(), used_},
                    .payload = payload,
                    .payload_bytes = payload_bytes,
                    .pad_bytes = bth_.pad_bytes,
                    .copy_first = copy_first});
  }

 private:
  wire::Bth bth_;
  uint32_t used_ = wire::Bth::kBytes;
  std::array<uint8_t, wire::kMaxHeaderBytes> bytes_;
};

}  // namespace verbena::transport
