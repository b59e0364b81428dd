// SPDX-License-Identifier: Apache-2.0
// Work requests as a caller posts them, completions as a caller polls them, and the two interfaces
// through which the transport speaks to its owner: a link for packets, a sink for completions and
// events.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/time.h"
#include "memory/domain.h"
#include "transport/attributes.h"
#include "transport/types.h"
#include "wire/packet.h"

namespace verbena::transport {

struct SendRequest {
  uint64_t wr_id = 0;
  SendOp op = SendOp::kSend;
  uint32_t flags = 0;                   // SendFlags
  std::span<const memory::Sge> list{};  // kInline: addr is a plain pointer, lkey is not looked at
  uint32_t imm = 0;                     // host order of the wire's big-endian field
  RKey invalidate{};                    // kSendInvalidate (the peer's), kLocalInvalidate (ours)
  RemoteAddr remote_addr{};
  RKey rkey{};
  uint64_t compare_add = 0;  // compare value, or what to add
  uint64_t swap = 0;
  SrqId remote_srq{};  // XRC
  // UD
  Path path{};
  Qpn remote_qpn{};
  uint32_t remote_qkey = 0;
  // kBindWindow
  RKey window{};
  memory::WindowBind bind{};
  // kConfigureKey; copied
  LKey key{};
  const memory::KeyConfig* config = nullptr;
  // kCopy
  memory::Sge copy_to{};
  memory::Sge copy_from{};
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const memory::Sge> list{};
};

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  bool solicited = false;  // wakes a channel armed for solicited completions only
  uint8_t service_level = 0;
  uint32_t flags = 0;  // WcFlags
  uint32_t byte_len = 0;
  uint32_t imm_or_rkey = 0;
  Qpn qpn{};
  Qpn source_qpn{};
};

// A completion queue as the transport sees it. Belongs to the owner and outlives its queue pairs.
class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  virtual void push(const Completion& completion) = 0;
};

// Packets with so much payload do not arrive there, or do not arrive from there, while small ones
// do.
struct LargePacketsLost {
  wire::Gid peer;
  uint32_t payload_bytes = 0;
  bool incoming = false;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void qp_event(Event event, Qpn qpn) = 0;
  virtual void srq_event(Event event, SrqId srq) = 0;
  // No event of verbs.
  virtual void large_packets_lost(const LargePacketsLost& /*lost*/) {}
};

// One packet to send: BTH and extension headers, then the payload's pieces, then pad_bytes of zeros
// and the ICRC, which are the link's to add.
struct OutPacket {
  const Path* path = nullptr;
  std::span<const uint8_t> headers{};
  std::span<const std::span<const uint8_t>> payload{};
  uint32_t payload_bytes = 0;
  uint8_t pad_bytes = 0;
  // The pieces lie in memory that others may change at any time (a READ's target): copy first, then
  // compute the ICRC over the copy, or a racing store makes a bad packet of a good one.
  bool copy_first = false;
};

// Packets in the middle of a message, one after the other: each a BTH, its share of the payload,
// which is a multiple of four, and an ICRC.
struct OutRun {
  const Path* path = nullptr;
  wire::Bth first{};  // PSNs count up from its; the last packet alone asks for an ACK, if it does
  std::span<const std::span<const uint8_t>> payload{};  // of all of them, wherever it is cut
  uint32_t packet_payload = 0;                          // bytes of it in each
  uint32_t packets = 0;
  bool copy_first = false;  // as OutPacket's
};

// Takes pieces of a run's payload from its front.
class RunPayload {
 public:
  explicit RunPayload(std::span<const std::span<const uint8_t>> pieces) : pieces_(pieces) {}
  // The next n bytes, or as many of them as lie side by side; n > 0, and so many are left.
  [[nodiscard]] std::span<const uint8_t> next(size_t n) {
    while (at_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      at_ = 0;
    }
    const auto part = pieces_.front().subspan(at_);
    const auto taken = part.first(n < part.size() ? n : part.size());
    at_ += taken.size();
    return taken;
  }

 private:
  std::span<const std::span<const uint8_t>> pieces_;
  size_t at_ = 0;
};

// Takes packets. `headers` is free again after send(); payload pieces stay in place until flush().
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  virtual void send(const OutPacket& packet) = 0;
  // Whether there is room for another packet now; when not, the owner calls Endpoint::advance
  // later.
  [[nodiscard]] virtual bool has_room() const = 0;
  // The same, where the receiver may be the one that has none: asked before all but
  // NAKs.
  [[nodiscard]] virtual bool has_room_towards(const Path& /*path*/, Qpn /*qpn*/) const {
    return has_room();
  }
  // How many packets of this length may go there as one run, of `wanted`.
  [[nodiscard]] virtual uint32_t room_for(const Path& path, Qpn qpn, uint32_t /*packet_bytes*/,
                                          uint32_t /*wanted*/) const {
    return has_room_towards(path, qpn) ? 1 : 0;
  }
  // As many packets as room_for() said, at most.
  virtual void send_run(const OutRun& run);
  // What was sent so far need not wait for what follows.
  virtual void cut() {}
  // Whether has_room_towards() keeps what lies at the receiver within its buffer by itself.
  [[nodiscard]] virtual bool paces(const Path& /*path*/, Qpn /*qpn*/) const { return false; }
  // Whether some of what was sent there was not read yet, by a receiver of this host that is alive,
  // or there is no room for more or for an answer: then its silence says nothing.
  [[nodiscard]] virtual bool is_unread(const Path& /*path*/, Qpn /*qpn*/) const { return false; }
  // Room for one payload (kMaxMtu bytes). What a sent packet's pieces point to stays untouched
  // until the next flush; room that no packet pointed to is given out again.
  [[nodiscard]] virtual std::span<uint8_t> staging() = 0;
};

// One packet that arrived, its ICRC already found right.
struct InPacket {
  wire::PacketView view{};
  wire::Gid source{};
  wire::Gid destination{};
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint16_t source_port = 0;  // of the datagram; 0: it came in none
};

}  // namespace verbena::transport
