// SPDX-License-Identifier: Apache-2.0
// Packets out, over UDP. Packets gather until flush(); runs of equal size towards one destination
// leave as one GSO send (the last of a run may be shorter), all of a flush in one sendmmsg. Payload
// is not copied unless it is small or may change under us; the kernel gathers it.
//
// Owned by the engine's lock holder.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "link/link_counters.h"
#include "link/taps.h"
#include "link/udp_socket.h"
#include "transport/work.h"
#include "wire/icrc.h"

namespace verbena::link {

class Seal;

// Credits of receivers on this host, from the shared table: what is in flight is limited per
// receiving process, so that its socket buffer does not overflow.
class Credits {
 public:
  virtual ~Credits() = default;
  // Whether some more may be sent now to the process that owns this queue pair number at
  // `destination`.
  [[nodiscard]] virtual bool available(const wire::Gid& destination, Qpn qpn) = 0;
  // How many packets of this length, in one datagram, of `wanted`.
  [[nodiscard]] virtual uint32_t packets_available(const wire::Gid& destination, Qpn qpn,
                                                   uint32_t packet_bytes, uint32_t wanted) = 0;
  // Whether available() knows about that process at all.
  [[nodiscard]] virtual bool known(const wire::Gid& destination, Qpn qpn) = 0;
  // Whether it would be on this host, and is not there (any more): what is sent to it would lie in
  // the receive buffer of another process, which has room for those that it knows.
  [[nodiscard]] virtual bool is_gone(const wire::Gid& /*destination*/, Qpn /*qpn*/) {
    return false;
  }
  // `cost` is about to lie in that process's receive buffer.
  virtual void spend(const wire::Gid& destination, Qpn qpn, uint32_t cost) = 0;
  // Whether that process, which is alive, has not read all of it.
  [[nodiscard]] virtual bool is_unread(const wire::Gid& /*destination*/, Qpn /*qpn*/) {
    return false;
  }

  // Whether that process takes nothing (stopped) and did not for long: data for it is lost here, so
  // that who sends to others as well is not held up. The first is a cheap look, true if anybody is.
  [[nodiscard]] bool anyone_unresponsive() const { return unresponsive_ != 0; }
  [[nodiscard]] virtual bool is_unresponsive(const wire::Gid& destination, Qpn qpn) = 0;

 protected:
  uint32_t unresponsive_ = 0;
};

// What a datagram costs its receiver's buffer, at most, as the kernel counts. A packet alone lies
// in a block of memory of its own whose size is a power of two; those of a batch lie in page
// fragments, to the byte. Its own structures come on top. `segment_bytes` is the batch's packet
// size, or all of a packet that is alone.
inline constexpr uint32_t kDatagramOverhead = 1024;
[[nodiscard]] constexpr uint32_t datagram_cost(uint32_t bytes, uint32_t segment_bytes) {
  return std::max(2 * segment_bytes, bytes + kDatagramOverhead) + kDatagramOverhead;
}

class UdpTransmitter final : public transport::PacketSink {
 public:
  // Payloads of so much or less are copied next to their headers: their place may be filled again
  // before the flush. The device relies on it for inline data.
  static constexpr uint32_t kCopyBelow = 1024;

  UdpTransmitter(const UdpSockets* ipv4, const UdpSockets* ipv6, uint16_t port, Credits* credits);

  void send(const transport::OutPacket& packet) override;
  [[nodiscard]] bool has_room() const override { return true; }
  [[nodiscard]] bool has_room_towards(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] uint32_t room_for(const transport::Path& path, Qpn qpn, uint32_t packet_bytes,
                                  uint32_t wanted) const override;
  void send_run(const transport::OutRun& run) override;
  void cut() override { flush(); }
  [[nodiscard]] bool paces(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] bool is_unread(const transport::Path& path, Qpn qpn) const override;
  [[nodiscard]] std::span<uint8_t> staging() override;
  void flush() {
    if (!messages_.empty()) flush_all();
  }

  void set_tap(TransmitTap* tap) { tap_ = tap; }
  // What goes to other hosts gets a tag; nullptr: nothing does.
  void set_seal(Seal* seal) { seal_ = seal; }
  [[nodiscard]] const TransmitCounters& counters() const { return counters_; }
  // Others that send beside the sockets count here as well.
  [[nodiscard]] TransmitCounters& counters() { return counters_; }

 private:
  static constexpr size_t kMaxMessages = 64;
  static constexpr size_t kMaxIovecs = 1024;
  static constexpr size_t kArenaBytes = 256 * 1024;
  static constexpr size_t kStagingSlots = 64;
  static constexpr uint32_t kMaxSegments = 64;
  static constexpr uint32_t kMaxGsoBytes = 65'000;
  // So much leaves at once, though more is coming: the receiver works on it meanwhile.
  static constexpr uint32_t kFlushBytes = 130'000;

  struct Message {
    wire::Gid source;
    wire::Gid destination;
    uint32_t interface_index = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 0;
    uint8_t slot =
        0;  // top byte of the destination queue pair number: batches do not cross processes
    bool ipv4 = true;
    bool closed = false;
    bool sealed = false;
    Qpn qpn;
    uint32_t segment_bytes = 0;
    uint32_t bytes = 0;
    uint32_t segments = 0;
    uint32_t cost = 0;  // of what is spent
    uint32_t first_iovec = 0;
    uint32_t iovecs = 0;
  };
  // Address and control messages of one message.
  struct Control {
    union {
      sockaddr_in in;
      sockaddr_in6 in6;
    } to;
    alignas(cmsghdr) std::array<uint8_t, 128> bytes;
  };

  [[nodiscard]] bool joins(const transport::Path& path, uint32_t packet_bytes, Qpn qpn,
                           uint32_t packets) const;
  // So many more packets of this length fit in a datagram with this much in it.
  [[nodiscard]] bool takes_at_once(const transport::OutRun& run, uint32_t packet_bytes) const;
  [[nodiscard]] static uint32_t fits(uint32_t segments, uint32_t bytes, uint32_t packet_bytes) {
    return std::min(kMaxSegments - segments, (kMaxGsoBytes - bytes) / packet_bytes);
  }
  void no_such_family();
  void refused(const Message& message, int error);
  [[nodiscard]] bool is_sealed(const transport::Path& path) const;
  // Whether data for it is lost here; counts that.
  [[nodiscard]] bool goes_to_nobody(const transport::Path& path, Qpn qpn, uint32_t packets);
  [[nodiscard]] bool goes_to_unresponsive(const transport::Path& path, Qpn qpn, uint32_t packets);
  // The message that packets of this length join, or a new one for them. The link was flushed if
  // there was no room: `iovecs` and `arena` are what they need.
  Message& message_for(const transport::Path& path, Qpn qpn, uint32_t packet_bytes,
                       uint32_t packets, size_t iovecs, size_t arena);
  void account(Message& message, uint32_t packet_bytes, uint32_t packets);
  Message& open_message(const transport::Path& path, uint32_t packet_bytes, Qpn qpn, bool ipv4);
  // Whether it lies in the room that staging() gave out last.
  [[nodiscard]] bool is_staging(const uint8_t* p) const {
    const uint8_t* const slot = staging_.data() + staging_slot_ * wire::kMaxMtu;
    return p >= slot && p < slot + wire::kMaxMtu;
  }
  [[nodiscard]] bool lies_in_staging(const transport::OutPacket& packet) const {
    return std::ranges::any_of(packet.payload,
                               [this](const auto piece) { return is_staging(piece.data()); });
  }
  uint8_t* arena(size_t bytes);
  void add_iovec(Message& message, const uint8_t* data, size_t bytes);
  [[nodiscard]] const UdpSockets* sockets_for(bool ipv4) const { return ipv4 ? ipv4_ : ipv6_; }
  void flush_all();
  // Inlined, as polls are (udp_link.h).
  [[gnu::always_inline]] void transmit(size_t first, size_t count);
  void fill(const Message& message, mmsghdr& header, Control& control, bool gso);
  // Whether any of it left.
  [[nodiscard]] bool send_apart(const Message& message);
  [[nodiscard]] bool wait_writable(int fd);

  const UdpSockets* ipv4_;
  const UdpSockets* ipv6_;
  uint16_t port_;
  Credits* credits_;
  TransmitTap* tap_ = nullptr;
  Seal* seal_ = nullptr;
  bool gso_[2] = {false, false};  // by family, ipv6 first
  TransmitCounters counters_;
  wire::IcrcSeries icrcs_;

  std::vector<uint8_t> arena_;
  size_t arena_used_ = 0;
  uint32_t gathered_ = 0;  // bytes since the last flush
  std::vector<uint8_t> staging_;
  size_t staging_slot_ = 0;
  uint64_t flushes_ = 0;
  std::vector<Message> messages_;
  std::vector<iovec> iovecs_;
  std::vector<mmsghdr> headers_;
  std::vector<Control> controls_;
};

}  // namespace verbena::link
