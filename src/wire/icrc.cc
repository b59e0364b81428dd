// SPDX-License-Identifier: Apache-2.0
#include "wire/icrc.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "wire/network.h"
#include "wire/packet.h"

namespace verbena::wire {
namespace {

// The state after the eight 0xff that stand for the absent local route header. The first four
// cancel the initial ones, the next four are ones times x^32.
constexpr uint32_t kStateAfterOnes = Crc32Algebra::multiply(0xffffffff, Crc32Algebra::power(32));

constexpr uint32_t kMaxNetworkBytes = Ipv6Header::kBytes + UdpHeader::kBytes;

// The IP and UDP headers as the ICRC sees them; gives their length.
uint32_t write_masked(const IcrcFlow& flow, uint32_t transport_bytes, uint8_t* p) {
  const auto udp_length = static_cast<uint16_t>(UdpHeader::kBytes + transport_bytes);
  const UdpHeader udp{flow.source_port, flow.destination_port, udp_length, 0xffff};
  if (flow.is_ipv4()) {
    Ipv4Header ip;
    ip.tos = 0xff;
    ip.total_length = static_cast<uint16_t>(Ipv4Header::kBytes + udp_length);
    ip.id = flow.ipv4_id;
    ip.dont_fragment = flow.ipv4_dont_fragment;
    ip.ttl = 0xff;
    ip.checksum = 0xffff;
    std::copy_n(flow.source.ipv4(), 4, ip.source.begin());
    std::copy_n(flow.destination.ipv4(), 4, ip.destination.begin());
    ip.write(p);
    udp.write(p + Ipv4Header::kBytes);
    return Ipv4Header::kBytes + UdpHeader::kBytes;
  }
  Ipv6Header ip;
  ip.traffic_class = 0xff;
  ip.flow_label = 0xfffff;
  ip.payload_length = udp_length;
  ip.hop_limit = 0xff;
  ip.source = flow.source.bytes;
  ip.destination = flow.destination.bytes;
  ip.write(p);
  udp.write(p + Ipv6Header::kBytes);
  return Ipv6Header::kBytes + UdpHeader::kBytes;
}

constexpr uint32_t kMaskedBthByte = 4;

// The identification is 16 bits of the message; what it adds to the final CRC is those bits, as the
// register's low half (first byte lowest), times x^16 for their own passage and x^8 for each byte
// behind them. Going back is a multiplication by the inverse.
constexpr uint32_t kBytesFromIdToTransport =
    14 + UdpHeader::kBytes;  // rest of the IPv4 header, UDP

constexpr uint64_t id_exponent(uint64_t bth_to_pad_bytes) {
  return 16 + 8 * (kBytesFromIdToTransport + bth_to_pad_bytes);
}
constexpr uint64_t kOrderOfX = 0xffffffff;  // x^kOrderOfX = 1: the polynomial is primitive

constexpr uint32_t inverse_power(uint64_t n) {
  return Crc32Algebra::power(kOrderOfX - n % kOrderOfX);
}

// A factor and the same times x^16, so that a product is two chains of 16 steps side by side: this
// is paid for every packet whose identification is not 0, and halves what it costs.
struct Factor {
  uint32_t low;
  uint32_t high;

  [[nodiscard]] static constexpr Factor of(uint32_t value) {
    return {value, Crc32Algebra::multiply(value, Crc32Algebra::power(16))};
  }
  [[nodiscard]] uint32_t times(uint32_t b) const {
    uint32_t by_low = 0;   // the coefficients x^0 to x^15 of b, the upper half of the word
    uint32_t by_high = 0;  // x^16 to x^31
    for (int i = 0; i < 16; ++i) {
      by_low = Crc32Algebra::times_x(by_low) ^ (low & (0 - ((b >> (16 + i)) & 1)));
      by_high = Crc32Algebra::times_x(by_high) ^ (high & (0 - ((b >> i) & 1)));
    }
    return by_low ^ by_high;
  }
};

// x^-id_exponent(4 i): all lengths that parse() lets through.
constexpr auto kBackToId = [] {
  std::array<Factor, kMaxPacketBytes / 4 + 1> table{};
  constexpr uint32_t kStep = inverse_power(32);
  uint32_t value = inverse_power(id_exponent(0));
  for (Factor& factor : table) {
    factor = Factor::of(value);
    value = Crc32Algebra::multiply(value, kStep);
  }
  return table;
}();

// What each value of each of four bytes adds to the state behind them.
constexpr auto kWord = [] {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (uint32_t value = 0; value < 256; ++value) {
    uint32_t state = value;
    for (size_t byte = 4; byte-- > 0;) {
      for (int bit = 0; bit < 8; ++bit) state = Crc32Algebra::times_x(state);
      tables[byte][value] = state;
    }
  }
  return tables;
}();

// What an identification adds to the state behind the BTH.
uint32_t id_behind_bth(uint16_t ipv4_id) {
  // Those of the packets of one GSO send.
  static constexpr auto kSmall = [] {
    std::array<uint32_t, 64> table{};
    for (size_t i = 0; i < table.size(); ++i) {
      const auto id = static_cast<uint16_t>(i);
      table[i] =
          Crc32Algebra::multiply(std::byteswap(id), Crc32Algebra::power(id_exponent(Bth::kBytes)));
    }
    return table;
  }();
  if (ipv4_id < kSmall.size()) return kSmall[ipv4_id];
  return icrc_id_delta(ipv4_id, Bth::kBytes + kIcrcBytes);
}

Factor back_to_id(size_t bth_to_pad_bytes) {
  const size_t i = bth_to_pad_bytes / 4;
  if (bth_to_pad_bytes % 4 == 0 && i < kBackToId.size()) return kBackToId[i];
  return Factor::of(inverse_power(id_exponent(bth_to_pad_bytes)));
}

}  // namespace

uint32_t icrc_begin(const IcrcFlow& flow, uint32_t transport_bytes) {
  uint8_t headers[kMaxNetworkBytes];
  const uint32_t length = write_masked(flow, transport_bytes, headers);
  return crc32_update(kStateAfterOnes, {headers, length});
}

uint32_t icrc_bth(uint32_t state, std::span<const uint8_t> headers) {
  VERBENA_CHECK(headers.size() >= Bth::kBytes);
  uint8_t masked[Bth::kBytes];
  std::memcpy(masked, headers.data(), sizeof masked);
  masked[kMaskedBthByte] = 0xff;
  return icrc_more(crc32_update(state, masked), headers.subspan(sizeof masked));
}

uint32_t icrc_more(uint32_t state, std::span<const uint8_t> bytes) {
  return crc32_update(state, bytes);
}

uint32_t icrc_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes) {
  return crc32_copy(state, to, bytes);
}

uint32_t icrc_end(uint32_t state) { return crc32_finish(state); }

uint32_t icrc_id_delta(uint16_t ipv4_id, uint32_t transport_bytes) {
  VERBENA_CHECK(transport_bytes >= kIcrcBytes);
  const uint32_t first_byte_lowest = std::byteswap(ipv4_id);
  return Crc32Algebra::multiply(first_byte_lowest,
                                Crc32Algebra::power(id_exponent(transport_bytes - kIcrcBytes)));
}

uint32_t icrc(const IcrcFlow& flow, std::span<const uint8_t> bth_to_pad) {
  const auto transport_bytes = static_cast<uint32_t>(bth_to_pad.size() + kIcrcBytes);
  return icrc_end(icrc_bth(icrc_begin(flow, transport_bytes), bth_to_pad));
}

uint32_t load_icrc(const uint8_t* p) { return std::byteswap(load_be32(p)); }

void store_icrc(uint8_t* p, uint32_t value) { store_be32(p, std::byteswap(value)); }

std::optional<uint16_t> icrc_solve(const IcrcFlow& flow, std::span<const uint8_t> packet) {
  IcrcSeries series;
  series.aim(flow, static_cast<uint32_t>(packet.size()));
  return series.solve(packet, 0);
}

void IcrcSeries::aim_anew(const IcrcFlow& flow, uint32_t transport_bytes) {
  flow_ = flow;
  flow_.ipv4_id = 0;
  transport_bytes_ = transport_bytes;
  state_ = icrc_begin(flow_, transport_bytes);
  ipv4_ = flow.is_ipv4();
  bth_head_ = 0;  // which no BTH has, masked
}

uint32_t IcrcSeries::behind_bth(uint16_t ipv4_id, const uint8_t* bth) {
  // By words: a byte stored and read back as part of a word costs more than all the rest here.
  constexpr auto kOnes = std::bit_cast<uint64_t>(std::array<uint8_t, 8>{0, 0, 0, 0, 0xff, 0, 0, 0});
  static_assert(kMaskedBthByte == 4);
  uint64_t head = 0;
  std::memcpy(&head, bth, sizeof head);
  head |= kOnes;
  if (head != bth_head_) {
    bth_head_ = head;
    std::array<uint8_t, Bth::kBytes> masked{};
    std::memcpy(masked.data(), &head, sizeof head);
    bth_state_ = crc32_update(state_, masked);
  }
  // All is linear: what the last four bytes and the identification add does not depend on the rest.
  uint32_t state =
      bth_state_ ^ kWord[0][bth[8]] ^ kWord[1][bth[9]] ^ kWord[2][bth[10]] ^ kWord[3][bth[11]];
  if (ipv4_ && ipv4_id != 0) state ^= id_behind_bth(ipv4_id);
  return state;
}

std::optional<uint16_t> IcrcSeries::solve(std::span<const uint8_t> packet, uint16_t likely_id) {
  if (packet.size() < Bth::kBytes + kIcrcBytes) return std::nullopt;
  const auto bth_to_pad = packet.first(packet.size() - kIcrcBytes);
  const uint16_t assumed = ipv4_ ? likely_id : 0;
  const uint32_t state =
      icrc_more(behind_bth(assumed, packet.data()), bth_to_pad.subspan(Bth::kBytes));
  const uint32_t difference = icrc_end(state) ^ load_icrc(packet.data() + bth_to_pad.size());
  if (difference == 0) return assumed;
  if (!ipv4_) return std::nullopt;
  const uint32_t bits = back_to_id(bth_to_pad.size()).times(difference);
  if (bits >> 16 != 0) return std::nullopt;
  return static_cast<uint16_t>(assumed ^ std::byteswap(static_cast<uint16_t>(bits)));
}

}  // namespace verbena::wire
