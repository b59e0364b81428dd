// SPDX-License-Identifier: Apache-2.0
// Stand-ins for what an endpoint talks to, and words for packets: shared by the tests and fuzzers
// of this folder and by the golden check. No test framework in it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/endpoint.h"
#include "wire/encode.h"

namespace verbena::transport::testing {

// A packet with bytes of its own: one that a peer sends, or one that the endpoint sent.
class Packet {
 public:
  Packet() = default;
  explicit Packet(std::vector<uint8_t> bth_to_pad) : bytes_(std::move(bth_to_pad)) {
    bytes_.resize(bytes_.size() + wire::kIcrcBytes);
    const auto view = wire::parse(bytes_);
    VERBENA_CHECK(view.has_value());
    view_ = *view;
  }
  Packet(const wire::Headers& headers, std::span<const uint8_t> payload)
      : Packet(wire::encode(headers, payload)) {}
  // The view points into the bytes: a copy would need its own.
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;
  Packet(Packet&&) = default;
  Packet& operator=(Packet&&) = default;

  [[nodiscard]] const wire::PacketView& view() const { return view_; }
  [[nodiscard]] const wire::OpcodeInfo& info() const { return *view_.info; }
  [[nodiscard]] wire::Op op() const { return view_.info->op; }
  [[nodiscard]] std::vector<uint8_t> payload() const {
    return {view_.payload.begin(), view_.payload.end()};
  }

  Path path;
  bool copy_first = false;

 private:
  std::vector<uint8_t> bytes_;  // BTH to ICRC; the ICRC is zero
  wire::PacketView view_;
};

// Keeps what is sent. `room` packets are taken before the link is full.
class RecordingLink final : public PacketSink {
 public:
  static constexpr size_t kUnlimited = ~size_t{0};

  void send(const OutPacket& packet) override {
    if (room != kUnlimited && room > 0) --room;
    if (discard) {
      // A sanitizer sees what may not be read.
      for (const auto& piece : packet.payload)
        touched_ = std::accumulate(piece.begin(), piece.end(), touched_);
      return;
    }
    std::vector<uint8_t> bytes(packet.headers.begin(), packet.headers.end());
    for (const auto& piece : packet.payload) bytes.insert(bytes.end(), piece.begin(), piece.end());
    VERBENA_CHECK(bytes.size() == packet.headers.size() + packet.payload_bytes);
    bytes.insert(bytes.end(), packet.pad_bytes, 0);
    sent.emplace_back(std::move(bytes));
    sent.back().path = *packet.path;
    sent.back().copy_first = packet.copy_first;
  }
  [[nodiscard]] bool has_room() const override { return room > 0; }
  [[nodiscard]] uint32_t room_for(const Path&, Qpn, uint32_t, uint32_t wanted) const override {
    return static_cast<uint32_t>(std::min<size_t>(room, wanted));
  }
  void cut() override { cuts.push_back(sent.size()); }
  [[nodiscard]] bool paces(const Path&, Qpn) const override { return same_host; }
  [[nodiscard]] bool is_unread(const Path&, Qpn) const override { return unread; }
  [[nodiscard]] std::span<uint8_t> staging() override { return staging_; }

  std::vector<Packet> sent;
  std::vector<size_t> cuts;  // after so many of what is in `sent`
  size_t room = kUnlimited;
  bool discard = false;
  bool unread = false;  // the receiver lives, and has not read everything
  bool same_host = false;

 private:
  std::array<uint8_t, wire::kMaxMtu> staging_{};
  uint32_t touched_ = 0;
};

// By which a domain reads what a peer asks for again; it may be gone.
class RepeatedMemory final : public memory::Accessor {
 public:
  [[nodiscard]] memory::Fault read(const uint8_t* from, std::span<uint8_t> to) override {
    if (gone) return memory::Fault::kPage;
    std::copy_n(from, to.size(), to.begin());
    return memory::Fault::kNone;
  }
  [[nodiscard]] memory::Fault write(uint8_t*, std::span<const uint8_t>) override {
    return memory::Fault::kPage;
  }

  bool gone = false;
};

class RecordingQueue final : public CompletionQueue {
 public:
  void push(const Completion& completion) override { all.push_back(completion); }
  std::vector<Completion> all;
};

class RecordingEvents final : public EventSink {
 public:
  void qp_event(Event event, Qpn qpn) override { all.emplace_back(event, qpn.value); }
  void srq_event(Event event, SrqId srq) override { all.emplace_back(event, srq.value); }
  void large_packets_lost(const LargePacketsLost& what) override { lost.push_back(what); }
  std::vector<std::pair<Event, uint32_t>> all;
  std::vector<LargePacketsLost> lost;
};

// What the endpoint's queue pair and its peer are in these tests.
inline constexpr wire::Gid kHere = wire::Gid::from_ipv4(10, 0, 0, 1);
inline constexpr wire::Gid kThere = wire::Gid::from_ipv4(10, 0, 0, 2);
inline constexpr Path kPathThere{.source = kHere, .destination = kThere};

inline InPacket arriving(const Packet& packet, const wire::Gid& from = kThere,
                         const wire::Gid& to = kHere) {
  return {.view = packet.view(),
          .source = from,
          .destination = to,
          .traffic_class = 0x20,
          .hop_limit = 63};
}

inline wire::Headers headers_of(wire::Service service, wire::Op op, Qpn dest, wire::Psn psn) {
  wire::Headers headers;
  headers.bth.opcode = wire::opcode_byte(service, op);
  headers.bth.dest_qp = dest;
  headers.bth.psn = psn;
  return headers;
}

// Bytes that differ from their neighbours and from those of other seeds.
inline std::vector<uint8_t> pattern(size_t n, uint32_t seed = 1) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i)
    bytes[i] = static_cast<uint8_t>((i * 31 + i / 251 + seed * 17) & 0xff);
  return bytes;
}

}  // namespace verbena::transport::testing
