// SPDX-License-Identifier: Apache-2.0
// SharedLink: what arrives. Nothing in a ring is believed: see ring.h.
#include <algorithm>
#include <array>
#include <cstring>

#include "link/shared_link.h"
#include "link/shared_link_ends.h"

namespace verbena::link {
namespace {

// From one ring before the others have their turn.
constexpr size_t kBatchRecords = 32;
constexpr size_t kBatchBytes = 128 * 1024;
constexpr uint32_t kLarge = 16'384;

}  // namespace

size_t SharedLink::receive(Time now) {
  if (in_.empty()) return 0;
  look();
  size_t got = 0;
  receiving_ = true;
  const size_t count = in_.size();
  if (++first_in_ >= count) first_in_ = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = first_in_ + i;
    got += read(*in_[at < count ? at : at - count], now);
  }
  receiving_ = false;
  if (has_dead_) drop_dead_rings();
  return got;
}

size_t SharedLink::read(In& in, Time now) {
  size_t records = 0;
  size_t bytes = 0;
  while (records < kBatchRecords && bytes < kBatchBytes) {
    const auto record = in.ring.next();
    if (!record) break;
    take(in, *record, now);
    in.ring.advance(*record);
    bytes += record->head.payload_bytes;
    ++records;
  }
  if (records == 0) {
    if (in.ring.is_broken() && !in.told) {
      in.told = true;
      parts_.intake.count_bad_record();
    }
    return 0;
  }
  ++parts_.received.datagrams;
  if (in.ring.release() && table_.slots[in.slot].polling.load(std::memory_order_seq_cst) == 0) {
    wake(in.slot);
  }
  return records;
}

void SharedLink::take(In& in, const RingReader::Record& record, Time now) {
  large_ = record.head.payload_bytes >= kLarge;
  switch (record.head.kind) {
    case RecordKind::kFlow: return take_flow(in, record);
    case RecordKind::kPacket:
      if (has_good_flow(in)) return take_packet(in, record, now);
      break;
    case RecordKind::kRun:
      if (has_good_flow(in)) return take_run(in, record, now);
      break;
  }
  parts_.intake.count_bad_record();
}

// A member of this host has addresses of this host. Those that are new it may know before us, and
// says them once: who is not believed today may be tomorrow.
bool SharedLink::has_good_flow(In& in) {
  if (in.has_flow && !in.is_local) {
    in.is_local =
        parts_.host.is_local_by_now(in.destination) && parts_.host.is_local_by_now(in.source);
  }
  return in.has_flow && in.is_local;
}

void SharedLink::take_flow(In& in, const RingReader::Record& record) {
  RingFlow flow;
  in.has_flow = in.is_local = false;
  if (record.headers.size() != sizeof flow) return parts_.intake.count_bad_record();
  std::memcpy(&flow, record.headers.data(), sizeof flow);
  in.source = {flow.source};
  in.destination = {flow.destination};
  in.traffic_class = flow.traffic_class;
  in.hop_limit = flow.hop_limit;
  in.has_flow = true;
  if (!has_good_flow(in)) parts_.intake.count_bad_record();
}

void SharedLink::take_packet(In& in, const RingReader::Record& record, Time now) {
  std::array<uint8_t, Ring::kMaxHeaderBytes> headers;
  std::memcpy(headers.data(), record.headers.data(), record.headers.size());
  parts_.received.packets += 1;
  parts_.received.bytes +=
      record.headers.size() + ((record.payload.size() + 3) & ~size_t{3}) + size_t{wire::kIcrcBytes};
  hand_on(in, {headers.data(), record.headers.size()}, record.payload, now);
}

void SharedLink::hand_on(const In& in, std::span<const uint8_t> headers,
                         std::span<const uint8_t> payload, Time now) {
  parts_.intake.on_ring_packet({.headers = headers,
                                .payload = payload,
                                .source = in.source,
                                .destination = in.destination,
                                .traffic_class = in.traffic_class,
                                .hop_limit = in.hop_limit},
                               now);
}

void SharedLink::take_run(In& in, const RingReader::Record& record, Time now) {
  const uint32_t packets = record.head.packets;
  const uint32_t each = payload_of_each(record.head);
  if (each == 0) return parts_.intake.count_bad_record();
  std::array<uint8_t, wire::Bth::kBytes> headers;
  std::memcpy(headers.data(), record.headers.data(), headers.size());
  parts_.received.packets += packets;
  parts_.received.bytes +=
      record.payload.size() + size_t{packets} * (wire::Bth::kBytes + wire::kIcrcBytes);
  wire::Bth bth = wire::Bth::read(headers.data());
  const bool ack_request = bth.ack_request;
  const uint32_t taken = parts_.intake.on_ring_run(headers, record.payload, packets, in.source,
                                                   in.destination, ack_request, now);
  bth.psn = bth.psn + taken;
  for (uint32_t i = taken; i < packets; ++i) {
    bth.ack_request = ack_request && i + 1 == packets;
    bth.write(headers.data());
    hand_on(in, headers, record.payload.subspan(size_t{i} * each, each), now);
    bth.psn = bth.psn.next();
  }
}

}  // namespace verbena::link
