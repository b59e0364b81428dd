// SPDX-License-Identifier: Apache-2.0
#include "wire/encode.h"

#include "base/check.h"

namespace verbena::wire {

Headers decode(const PacketView& packet) {
  const OpcodeInfo& info = *packet.info;
  Headers h;
  h.bth = packet.bth;
  if (info.has(kRdeth)) h.rdeth = packet.rdeth();
  if (info.has(kDeth)) h.deth = packet.deth();
  if (info.has(kXrceth)) h.xrceth = packet.xrceth();
  if (info.has(kFeth)) h.feth = packet.feth();
  if (info.has(kReth)) h.reth = packet.reth();
  if (info.has(kAtomicEth)) h.atomic_eth = packet.atomic_eth();
  if (info.has(kAeth)) h.aeth = packet.aeth();
  if (info.has(kAtomicAckEth)) h.atomic_ack_eth = packet.atomic_ack_eth();
  if (info.has(kImmDt)) h.imm = packet.imm();
  if (info.has(kIeth)) h.ieth = packet.ieth();
  return h;
}

uint32_t write_headers(const Headers& headers, uint8_t* out) {
  const OpcodeInfo& info = opcode_info(headers.bth.opcode);
  VERBENA_CHECK(info.exists());
  headers.bth.write(out);
  if (info.has(kRdeth)) headers.rdeth.write(out + info.offset_of(kRdeth));
  if (info.has(kDeth)) headers.deth.write(out + info.offset_of(kDeth));
  if (info.has(kXrceth)) headers.xrceth.write(out + info.offset_of(kXrceth));
  if (info.has(kFeth)) headers.feth.write(out + info.offset_of(kFeth));
  if (info.has(kReth)) headers.reth.write(out + info.offset_of(kReth));
  if (info.has(kAtomicEth)) headers.atomic_eth.write(out + info.offset_of(kAtomicEth));
  if (info.has(kAeth)) headers.aeth.write(out + info.offset_of(kAeth));
  if (info.has(kAtomicAckEth)) headers.atomic_ack_eth.write(out + info.offset_of(kAtomicAckEth));
  if (info.has(kImmDt)) headers.imm.write(out + info.offset_of(kImmDt));
  if (info.has(kIeth)) headers.ieth.write(out + info.offset_of(kIeth));
  return info.header_bytes;
}

std::vector<uint8_t> encode(const Headers& headers, std::span<const uint8_t> payload) {
  Headers padded = headers;
  padded.bth.pad_bytes = static_cast<uint8_t>((0 - payload.size()) & 3);
  std::vector<uint8_t> out(kMaxHeaderBytes);
  out.resize(write_headers(padded, out.data()));
  out.insert(out.end(), payload.begin(), payload.end());
  out.insert(out.end(), padded.bth.pad_bytes, 0);
  return out;
}

}  // namespace verbena::wire
