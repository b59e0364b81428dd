// SPDX-License-Identifier: Apache-2.0
#include "link/udp_transmitter.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/udp.h>
#include <poll.h>

#include "base/check.h"
#include "link/numbers.h"
#include "link/seal.h"

namespace verbena::link {
namespace {

constexpr int kWritableWaitMs = 20;

[[nodiscard]] bool gso_was_refused(int error) {
  return error == EIO || error == EINVAL || error == EOPNOTSUPP || error == ENOPROTOOPT;
}

// The number that left, or -1. For one, sendmmsg costs more than sendmsg.
int send_messages(int fd, std::span<mmsghdr> messages) {
  if (messages.size() == 1) return ::sendmsg(fd, &messages[0].msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
  return ::sendmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT);
}

}  // namespace

UdpTransmitter::UdpTransmitter(const UdpSockets* ipv4, const UdpSockets* ipv6, uint16_t port,
                               Credits* credits)
    : ipv4_(ipv4),
      ipv6_(ipv6),
      port_(port),
      credits_(credits),
      gso_{ipv6 != nullptr && ipv6->gso, ipv4 != nullptr && ipv4->gso},
      arena_(kArenaBytes),
      staging_(kStagingSlots * wire::kMaxMtu),
      headers_(kMaxMessages),
      controls_(kMaxMessages) {
  messages_.reserve(kMaxMessages);
  iovecs_.reserve(kMaxIovecs);
}

bool UdpTransmitter::has_room_towards(const transport::Path& path, Qpn qpn) const {
  return credits_ == nullptr || credits_->available(path.destination, qpn);
}

uint32_t UdpTransmitter::room_for(const transport::Path& path, Qpn qpn, uint32_t packet_bytes,
                                  uint32_t wanted) const {
  uint32_t room = gso_[path.destination.is_ipv4() ? 1 : 0] ? fits(0, 0, packet_bytes) : 1;
  if (joins(path, packet_bytes, qpn, 1)) {
    // A shorter one (a First has more headers) is the last that its message takes.
    const Message& last = messages_.back();
    room = packet_bytes < last.segment_bytes ? 1 : fits(last.segments, last.bytes, packet_bytes);
  }
  room = std::min(room, wanted);
  return credits_ == nullptr
             ? room
             : credits_->packets_available(path.destination, qpn, packet_bytes, room);
}

bool UdpTransmitter::paces(const transport::Path& path, Qpn qpn) const {
  return credits_ != nullptr && credits_->known(path.destination, qpn);
}

bool UdpTransmitter::is_unread(const transport::Path& path, Qpn qpn) const {
  return credits_ != nullptr && credits_->is_unread(path.destination, qpn);
}

std::span<uint8_t> UdpTransmitter::staging() {
  return {staging_.data() + staging_slot_ * wire::kMaxMtu, wire::kMaxMtu};
}

uint8_t* UdpTransmitter::arena(size_t bytes) {
  uint8_t* const at = arena_.data() + arena_used_;
  arena_used_ += bytes;
  return at;
}

void UdpTransmitter::add_iovec(Message& message, const uint8_t* data, size_t bytes) {
  if (bytes == 0) return;
  if (message.iovecs > 0) {
    iovec& last = iovecs_.back();
    if (static_cast<uint8_t*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += bytes;
      return;
    }
  }
  iovecs_.push_back({const_cast<uint8_t*>(data), bytes});
  ++message.iovecs;
}

// Whether such packets can join the newest message. Only that one is open: packets leave in the
// order they came. A shorter one ends it.
bool UdpTransmitter::joins(const transport::Path& path, uint32_t packet_bytes, Qpn qpn,
                           uint32_t packets) const {
  if (messages_.empty()) return false;
  const Message& last = messages_.back();
  const bool length_fits =
      packets == 1 ? packet_bytes <= last.segment_bytes : packet_bytes == last.segment_bytes;
  return !last.closed && length_fits && last.segments < kMaxSegments &&
         last.bytes + packet_bytes <= kMaxGsoBytes && last.slot == slot_of(qpn) &&
         last.traffic_class == path.class_sent() && last.hop_limit == path.hops() &&
         last.destination == path.destination && last.source == path.source &&
         gso_[last.ipv4 ? 1 : 0];
}

UdpTransmitter::Message& UdpTransmitter::open_message(const transport::Path& path,
                                                      uint32_t packet_bytes, Qpn qpn, bool ipv4) {
  messages_.push_back({.source = path.source,
                       .destination = path.destination,
                       .interface_index = path.interface_index,
                       .traffic_class = path.class_sent(),
                       .hop_limit = path.hops(),
                       .slot = slot_of(qpn),
                       .ipv4 = ipv4,
                       .closed = false,
                       .qpn = qpn,
                       .segment_bytes = packet_bytes,
                       .first_iovec = static_cast<uint32_t>(iovecs_.size())});
  return messages_.back();
}

bool UdpTransmitter::is_sealed(const transport::Path& path) const {
  return seal_ != nullptr && seal_->is_wanted_to(path.destination);
}

void UdpTransmitter::no_such_family() {
  ++counters_.errors;
  counters_.last_error = EAFNOSUPPORT;
}

void UdpTransmitter::refused(const Message& message, int error) {
  ++counters_.errors;
  counters_.last_error = error;
  if (error != EMSGSIZE) return;
  ++counters_.too_large;
  counters_.too_large_to = message.destination;
  counters_.too_large_bytes = message.segment_bytes;
}

bool UdpTransmitter::goes_to_nobody(const transport::Path& path, Qpn qpn, uint32_t packets) {
  if (credits_ == nullptr || !credits_->is_gone(path.destination, qpn)) return false;
  counters_.to_nobody += packets;
  return true;
}

bool UdpTransmitter::goes_to_unresponsive(const transport::Path& path, Qpn qpn, uint32_t packets) {
  if (credits_ == nullptr || !credits_->anyone_unresponsive()) return false;
  if (!credits_->is_unresponsive(path.destination, qpn)) return false;
  counters_.to_unresponsive += packets;
  return true;
}

UdpTransmitter::Message& UdpTransmitter::message_for(const transport::Path& path, Qpn qpn,
                                                     uint32_t packet_bytes, uint32_t packets,
                                                     size_t iovecs, size_t arena) {
  bool joining = joins(path, packet_bytes, qpn, packets);
  if (messages_.size() == kMaxMessages || iovecs_.size() + iovecs > kMaxIovecs ||
      arena_used_ + arena > arena_.size() || staging_slot_ + 1 >= kStagingSlots ||
      (!joining && gathered_ >= kFlushBytes)) {
    flush();
    joining = false;
  }
  return joining ? messages_.back()
                 : open_message(path, packet_bytes, qpn, path.destination.is_ipv4());
}

// Packets of this length were added.
void UdpTransmitter::account(Message& message, uint32_t packet_bytes, uint32_t packets) {
  message.bytes += packets * packet_bytes;
  message.segments += packets;
  if (packet_bytes < message.segment_bytes) message.closed = true;
  if (credits_ != nullptr) {
    const uint32_t cost = datagram_cost(message.bytes, message.segment_bytes);
    credits_->spend(message.destination, message.qpn, cost - message.cost);
    message.cost = cost;
  }
  counters_.packets += packets;
  counters_.bytes += packets * packet_bytes;
  gathered_ += packets * packet_bytes;
}

void UdpTransmitter::send(const transport::OutPacket& packet) {
  const auto header_bytes = static_cast<uint32_t>(packet.headers.size());
  const bool sealed = is_sealed(*packet.path);
  const uint32_t bare_bytes =
      header_bytes + packet.payload_bytes + packet.pad_bytes + wire::kIcrcBytes;
  const uint32_t packet_bytes = bare_bytes + (sealed ? Seal::kBytes : 0);
  const Qpn qpn(load_be24(packet.headers.data() + 5));
  const bool ipv4 = packet.path->destination.is_ipv4();
  const UdpSockets* const sockets = sockets_for(ipv4);
  if (sockets == nullptr) return no_such_family();
  if (goes_to_nobody(*packet.path, qpn, 1)) return;
  // Not acknowledgements: they are few, and the first thing it needs when it goes on.
  if (packet.payload_bytes != 0 && goes_to_unresponsive(*packet.path, qpn, 1)) return;
  const bool staged = lies_in_staging(packet);
  const uint64_t flushes = flushes_;
  // Room for the worst: everything copied, or one iovec for each piece and two around them.
  Message& message = message_for(*packet.path, qpn, packet_bytes, 1, packet.payload.size() + 2,
                                 size_t{packet_bytes} + 8);
  message.sealed = sealed;
  const bool copy = packet.copy_first || packet.payload_bytes <= kCopyBelow || tap_ != nullptr ||
                    sealed ||
                    // Flushed: the staging room is given out again from the start.
                    (staged && flushes != flushes_);
  const wire::IcrcFlow flow{.source = packet.path->source,
                            .destination = packet.path->destination,
                            .source_port = sockets->source_port,
                            .destination_port = port_,
                            // A tag is not made again if the packet goes by itself after all.
                            .ipv4_id = static_cast<uint16_t>(sealed ? 0 : message.segments)};

  uint8_t* const head = arena(header_bytes);
  std::memcpy(head, packet.headers.data(), header_bytes);
  add_iovec(message, head, header_bytes);
  icrcs_.aim(flow, bare_bytes);
  uint32_t crc = wire::icrc_more(icrcs_.behind_bth(flow.ipv4_id, head),
                                 packet.headers.subspan(wire::Bth::kBytes));
  for (const auto piece : packet.payload) {
    if (copy) {
      uint8_t* const to = arena(piece.size());
      crc = wire::icrc_copy(crc, to, piece);
      add_iovec(message, to, piece.size());
    } else {
      crc = wire::icrc_more(crc, piece);
      add_iovec(message, piece.data(), piece.size());
      if (is_staging(piece.data())) ++staging_slot_;
    }
  }
  const size_t tail_bytes = packet_bytes - header_bytes - packet.payload_bytes;
  uint8_t* const tail = arena(tail_bytes);
  std::memset(tail, 0, packet.pad_bytes);
  crc = wire::icrc_more(crc, {tail, packet.pad_bytes});
  wire::store_icrc(tail + packet.pad_bytes, wire::icrc_end(crc));
  if (sealed) seal_->put(flow.source, flow.destination, head, bare_bytes);
  add_iovec(message, tail, tail_bytes);
  if (tap_ != nullptr) {
    tap_->on_transmit(flow, *packet.path, {head, bare_bytes});
  }
  account(message, packet_bytes, 1);
}

// One that was made for a ring, which has gone since, may be more than room_for() gives.
bool UdpTransmitter::takes_at_once(const transport::OutRun& run, uint32_t packet_bytes) const {
  if (!gso_[run.path->destination.is_ipv4() ? 1 : 0]) return false;
  const bool joining = joins(*run.path, packet_bytes, run.first.dest_qp, run.packets);
  return run.packets <= (joining
                             ? fits(messages_.back().segments, messages_.back().bytes, packet_bytes)
                             : fits(0, 0, packet_bytes));
}

void UdpTransmitter::send_run(const transport::OutRun& run) {
  constexpr uint32_t kAround = wire::Bth::kBytes + wire::kIcrcBytes;
  const uint32_t payload_bytes = run.packet_payload;
  const uint32_t packet_bytes = payload_bytes + kAround;
  const UdpSockets* const sockets = sockets_for(run.path->destination.is_ipv4());
  if (sockets == nullptr) return no_such_family();
  if (goes_to_nobody(*run.path, run.first.dest_qp, run.packets) ||
      goes_to_unresponsive(*run.path, run.first.dest_qp, run.packets)) {
    return;
  }
  if (is_sealed(*run.path) || !takes_at_once(run, packet_bytes)) return PacketSink::send_run(run);
  // Pieces cost the kernel more than copying them costs us.
  const bool copy =
      run.copy_first || payload_bytes <= kCopyBelow || tap_ != nullptr || run.payload.size() > 1;
  Message& message = message_for(*run.path, run.first.dest_qp, packet_bytes, run.packets,
                                 size_t{3} * run.packets + run.payload.size() + 1,
                                 size_t{run.packets} * (copy ? packet_bytes : kAround) + 8);
  VERBENA_CHECK(run.packets <= fits(message.segments, message.bytes, packet_bytes));
  wire::IcrcFlow flow{.source = run.path->source,
                      .destination = run.path->destination,
                      .source_port = sockets->source_port,
                      .destination_port = port_};
  icrcs_.aim(flow, packet_bytes);
  std::array<uint8_t, wire::Bth::kBytes> bth;
  run.first.write(bth.data());
  const uint32_t reserved = uint32_t{run.first.reserved7} << 24;
  wire::Psn psn = run.first.psn;
  transport::RunPayload payload(run.payload);
  uint8_t* const all =
      arena(copy ? size_t{run.packets} * packet_bytes : size_t{run.packets} * kAround);
  uint8_t* at = all;
  for (uint32_t i = 0; i < run.packets; ++i, psn = psn.next()) {
    const bool ack = run.first.ack_request && i + 1 == run.packets;
    store_be32(bth.data() + 8, (ack ? 0x80000000 : 0) | reserved | psn.value());
    flow.ipv4_id = static_cast<uint16_t>(message.segments + i);
    uint8_t* const head = at;
    std::memcpy(head, bth.data(), bth.size());
    at += bth.size();
    uint32_t crc = icrcs_.behind_bth(flow.ipv4_id, bth.data());
    if (!copy) add_iovec(message, head, bth.size());
    for (uint32_t left = payload_bytes; left > 0;) {
      const std::span<const uint8_t> piece = payload.next(left);
      left -= static_cast<uint32_t>(piece.size());
      if (copy) {
        crc = wire::icrc_copy(crc, at, piece);
        at += piece.size();
      } else {
        crc = wire::icrc_more(crc, piece);
        add_iovec(message, piece.data(), piece.size());
      }
    }
    wire::store_icrc(at, wire::icrc_end(crc));
    if (!copy) add_iovec(message, at, wire::kIcrcBytes);
    at += wire::kIcrcBytes;
    if (tap_ != nullptr) {
      tap_->on_transmit(flow, *run.path, {head, packet_bytes});
    }
  }
  if (copy) add_iovec(message, all, static_cast<size_t>(at - all));
  account(message, packet_bytes, run.packets);
}

void UdpTransmitter::fill(const Message& message, mmsghdr& header, Control& control, bool gso) {
  msghdr& msg = header.msg_hdr;
  msg = {};
  msg.msg_iov = iovecs_.data() + message.first_iovec;
  msg.msg_iovlen = message.iovecs;
  msg.msg_control = control.bytes.data();
  msg.msg_controllen = control.bytes.size();
  std::memset(control.bytes.data(), 0, control.bytes.size());
  cmsghdr* item = CMSG_FIRSTHDR(&msg);
  size_t used = 0;
  const auto add = [&](int level, int type, const void* data, size_t bytes) {
    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(item), data, bytes);
    used += CMSG_SPACE(bytes);
    item = CMSG_NXTHDR(&msg, item);
  };
  const int traffic_class = message.traffic_class;
  const int hop_limit = message.hop_limit;
  // Else it is the socket's (udp_socket.cc): no work for what nearly every packet has.
  const bool own_hop_limit = hop_limit != transport::kDefaultHopLimit;
  if (message.ipv4) {
    control.to.in = {};
    control.to.in.sin_family = AF_INET;
    control.to.in.sin_port = htons(port_);
    std::memcpy(&control.to.in.sin_addr, message.destination.ipv4(), 4);
    msg.msg_name = &control.to.in;
    msg.msg_namelen = sizeof control.to.in;
    in_pktinfo info{};
    std::memcpy(&info.ipi_spec_dst, message.source.ipv4(), 4);
    add(IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    if (traffic_class != 0) add(IPPROTO_IP, IP_TOS, &traffic_class, sizeof traffic_class);
    if (own_hop_limit) add(IPPROTO_IP, IP_TTL, &hop_limit, sizeof hop_limit);
  } else {
    control.to.in6 = {};
    control.to.in6.sin6_family = AF_INET6;
    control.to.in6.sin6_port = htons(port_);
    std::memcpy(&control.to.in6.sin6_addr, message.destination.bytes.data(), 16);
    control.to.in6.sin6_scope_id = message.interface_index;
    msg.msg_name = &control.to.in6;
    msg.msg_namelen = sizeof control.to.in6;
    in6_pktinfo info{};
    std::memcpy(&info.ipi6_addr, message.source.bytes.data(), 16);
    info.ipi6_ifindex = message.interface_index;
    add(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    if (traffic_class != 0) add(IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof traffic_class);
    if (own_hop_limit) add(IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_limit, sizeof hop_limit);
  }
  if (gso) {
    const auto segment = static_cast<uint16_t>(message.segment_bytes);
    add(SOL_UDP, kUdpSegment, &segment, sizeof segment);
  }
  msg.msg_controllen = used;
}

bool UdpTransmitter::wait_writable(int fd) {
  ++counters_.would_block;
  pollfd poll_fd{fd, POLLOUT, 0};
  return ::poll(&poll_fd, 1, kWritableWaitMs) > 0;
}

// GSO was refused for this batch: its packets go one by one, each with identification 0.
bool UdpTransmitter::send_apart(const Message& message) {
  std::vector<uint8_t> flat;
  flat.reserve(message.bytes);
  for (uint32_t i = 0; i < message.iovecs; ++i) {
    const iovec& piece = iovecs_[message.first_iovec + i];
    const auto* const bytes = static_cast<const uint8_t*>(piece.iov_base);
    flat.insert(flat.end(), bytes, bytes + piece.iov_len);
  }
  const int fd = sockets_for(message.ipv4)->send.get();
  mmsghdr header{};
  Control control{};
  fill(message, header, control, false);
  uint32_t at = 0;
  bool any = false;
  for (uint32_t id = 0; id < message.segments; ++id) {
    const uint32_t bytes = std::min(message.segment_bytes, message.bytes - at);
    uint8_t* const crc = flat.data() + at + bytes - wire::kIcrcBytes;
    if (message.ipv4 && !message.sealed) {
      wire::store_icrc(
          crc, wire::load_icrc(crc) ^ wire::icrc_id_delta(static_cast<uint16_t>(id), bytes));
    }
    iovec piece{flat.data() + at, bytes};
    header.msg_hdr.msg_iov = &piece;
    header.msg_hdr.msg_iovlen = 1;
    ++counters_.syscalls;
    ++counters_.sends;
    ssize_t sent = ::sendmsg(fd, &header.msg_hdr, MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN && wait_writable(fd)) {
      sent = ::sendmsg(fd, &header.msg_hdr, MSG_DONTWAIT);
    }
    if (sent < 0) {
      refused(message, errno);
    } else {
      any = true;
    }
    at += bytes;
  }
  return any;
}

// Messages [first, first + count), all of one family.
inline void UdpTransmitter::transmit(size_t first, size_t count) {
  const bool ipv4 = messages_[first].ipv4;
  const int fd = sockets_for(ipv4)->send.get();
  for (size_t i = 0; i < count; ++i) {
    fill(messages_[first + i], headers_[i], controls_[i], messages_[first + i].segments > 1);
  }
  size_t done = 0;
  bool waited = false;
  while (done < count) {
    ++counters_.syscalls;
    const int sent = send_messages(fd, {headers_.data() + done, count - done});
    if (sent > 0) {
      done += static_cast<size_t>(sent);
      counters_.sends += static_cast<uint64_t>(sent);
      waited = false;
      continue;
    }
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EAGAIN && !waited) {
      waited = true;
      (void)wait_writable(fd);
      continue;
    }
    const Message& message = messages_[first + done];
    if (message.segments > 1 && gso_was_refused(error)) {
      ++counters_.gso_refused;
      // If it does not go apart either, it was not for the batch: an address is gone, say, or an
      // interface carries less than before.
      const uint64_t too_large = counters_.too_large;
      if (send_apart(message) && counters_.too_large == too_large) gso_[ipv4 ? 1 : 0] = false;
    } else {
      refused(message, error);
    }
    ++done;
  }
}

void UdpTransmitter::flush_all() {
  size_t first = 0;
  while (first < messages_.size()) {
    size_t end = first + 1;
    while (end < messages_.size() && messages_[end].ipv4 == messages_[first].ipv4) ++end;
    transmit(first, end - first);
    first = end;
  }
  messages_.clear();
  iovecs_.clear();
  arena_used_ = 0;
  gathered_ = 0;
  staging_slot_ = 0;
  ++flushes_;
}

}  // namespace verbena::link
