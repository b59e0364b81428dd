// SPDX-License-Identifier: Apache-2.0
#include "link/peers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "link/member_names.h"

namespace verbena::link {
namespace {

template <typename T>
[[nodiscard]] iovec piece(const T& value) {
  return {const_cast<T*>(&value), sizeof value};
}

[[nodiscard]] bool send_pieces(int fd, std::span<iovec> pieces) {
  msghdr msg{};
  msg.msg_iov = pieces.data();
  msg.msg_iovlen = pieces.size();
  return ::sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

template <typename T>
[[nodiscard]] std::span<uint8_t> as_bytes(T& value) {
  return {reinterpret_cast<uint8_t*>(&value), sizeof value};
}

// One record, as recv(); the descriptors that came with it. The kernel closes those for which there
// is no room.
[[nodiscard]] ssize_t receive_record(int fd, std::span<uint8_t> room,
                                     std::span<UniqueFd, kMaxPassed> passed) {
  iovec data{room.data(), room.size()};
  msghdr msg{};
  msg.msg_iov = &data;
  msg.msg_iovlen = 1;
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(kMaxPassed * sizeof(int))> control{};
  msg.msg_control = control.data();
  msg.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* const item = got > 0 ? CMSG_FIRSTHDR(&msg) : nullptr;
  if (item == nullptr || item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) {
    return got;
  }
  const size_t count = std::min((item->cmsg_len - CMSG_LEN(0)) / sizeof(int), kMaxPassed);
  for (size_t i = 0; i < count; ++i) {
    int one = -1;
    std::memcpy(&one, CMSG_DATA(item) + i * sizeof one, sizeof one);
    passed[i].reset(one);
  }
  return got;
}

}  // namespace

bool send_message(int fd, const PeerMessage& message, std::span<const int> passed) {
  iovec data = piece(message);
  msghdr msg{};
  msg.msg_iov = &data;
  msg.msg_iovlen = 1;
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(kMaxPassed * sizeof(int))> control{};
  if (!passed.empty()) {
    msg.msg_control = control.data();
    msg.msg_controllen = CMSG_SPACE(passed.size_bytes());
    cmsghdr* const item = CMSG_FIRSTHDR(&msg);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(passed.size_bytes());
    std::memcpy(CMSG_DATA(item), passed.data(), passed.size_bytes());
  }
  return ::sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

std::optional<UniqueFd> receive_table(int fd) {
  PeerMessage message;
  std::array<UniqueFd, kMaxPassed> passed;
  const ssize_t got = receive_record(fd, as_bytes(message), passed);
  if (got != static_cast<ssize_t>(sizeof message) || message.kind != PeerMessage::Kind::kTable ||
      !passed[0].valid()) {
    return std::nullopt;
  }
  return std::move(passed[0]);
}

Peers::Peers(const GroupNames& names, const SharedTable& table, uint8_t self, UniqueFd listener,
             int table_fd, int epoll, uint32_t tag)
    : names_(names),
      table_(table),
      self_(self),
      listener_(std::move(listener)),
      table_fd_(table_fd),
      epoll_(epoll),
      tag_(tag),
      record_(kMaxRecord) {
  connections_.reserve(kMaxConnections);
  // Edge-triggered: without descriptors a newcomer cannot be let in, and nobody spins over it.
  epoll_event event{
      .events = EPOLLIN | EPOLLET,
      .data = {.u64 = (uint64_t{tag_} << 32) | static_cast<uint32_t>(listener_.get())}};
  (void)::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_.get(), &event);
}

void Peers::on_ready(uint32_t data, PeerEvents& events) {
  if (static_cast<int>(data) == listener_.get()) {
    accept_all();
  } else {
    read(static_cast<int>(data), events);
  }
}

Peers::Connection* Peers::add(UniqueFd fd, uint8_t slot, bool outgoing) {
  if (connections_.size() >= kMaxConnections) return nullptr;
  epoll_event event{.events = EPOLLIN,
                    .data = {.u64 = (uint64_t{tag_} << 32) | static_cast<uint32_t>(fd.get())}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.get(), &event) != 0) return nullptr;
  connections_.push_back({std::move(fd), slot, outgoing, ++clock_, false});
  return &connections_.back();
}

void Peers::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    if (!identify_peer(fd.get(), names_.user()).same_user) continue;
    // Full: strangers that never said who they are make room first.
    if (connections_.size() >= kMaxConnections) {
      const auto silent = std::ranges::find(connections_, 0, &Connection::slot);
      if (silent != connections_.end()) close(silent->fd.get());
    }
    (void)add(std::move(fd), 0, false);
  }
}

Peers::Connection* Peers::find(uint8_t slot, bool outgoing_only) {
  for (Connection& connection : connections_) {
    if (connection.slot == slot && (connection.outgoing || !outgoing_only)) return &connection;
  }
  return nullptr;
}

void Peers::make_room() {
  size_t outgoing = 0;
  const Connection* oldest = nullptr;
  for (const Connection& connection : connections_) {
    if (!connection.outgoing || connection.watched) continue;
    ++outgoing;
    if (oldest == nullptr || connection.used < oldest->used) oldest = &connection;
  }
  if (outgoing < kMaxOutgoing) return;
  (void)send_message(oldest->fd.get(), {PeerMessage::Kind::kBye, self_});
  close(oldest->fd.get());
}

Peers::Connection* Peers::connect(uint8_t slot) {
  if (Connection* const known = find(slot, true)) {
    known->used = ++clock_;
    return known;
  }
  const auto name = name_of_member(names_, table_, slot);
  if (!name) return nullptr;
  auto fd = connect_to(*name);
  if (!fd || !identify_peer(fd->get(), names_.user()).same_user ||
      !send_message(fd->get(), {PeerMessage::Kind::kHello, self_})) {
    return nullptr;
  }
  // As much as members may have in a receive buffer.
  constexpr int kBytes = kCommonReceiveBuffer;
  (void)::setsockopt(fd->get(), SOL_SOCKET, SO_SNDBUF, &kBytes, sizeof kBytes);
  make_room();
  return add(std::move(*fd), slot, true);
}

bool Peers::watch(uint8_t slot) {
  Connection* connection = find(slot, false);
  if (connection == nullptr) connection = connect(slot);
  if (connection == nullptr) return false;
  connection->watched = true;
  return true;
}

bool Peers::forward(uint8_t slot, const Datagram& joined, uint32_t segment) {
  const Connection* const connection = connect(slot);
  if (connection == nullptr) return false;
  const PeerMessage message{PeerMessage::Kind::kPacket, self_};
  const PacketHead head{joined.source.bytes,  joined.destination.bytes, joined.source_port,
                        joined.traffic_class, joined.hop_limit,         segment};
  std::array<iovec, 3> pieces{
      piece(message), piece(head),
      iovec{const_cast<uint8_t*>(joined.bytes.data()), joined.bytes.size()}};
  return send_pieces(connection->fd.get(), pieces);
}

bool Peers::wake(uint8_t slot) { return tell(slot, {PeerMessage::Kind::kRoom, self_}); }

bool Peers::tell(uint8_t slot, PeerMessage message, std::span<const int> passed) {
  const Connection* connection = connect(slot);
  // Without descriptors by one that it made.
  if (connection == nullptr) connection = find(slot, false);
  return connection != nullptr && send_message(connection->fd.get(), message, passed);
}

bool Peers::answer(uint8_t slot, PeerMessage message, std::span<const int> passed) {
  const auto theirs = std::ranges::find_if(
      connections_, [slot](const Connection& c) { return c.slot == slot && !c.outgoing; });
  if (theirs == connections_.end()) return tell(slot, message, passed);
  return send_message(theirs->fd.get(), message, passed);
}

void Peers::close(int fd) {
  std::erase_if(connections_, [fd](const Connection& c) { return c.fd.get() == fd; });
}

bool Peers::handle(Connection& connection, std::span<const uint8_t> record,
                   std::span<UniqueFd> passed, PeerEvents& events) {
  PeerMessage message;
  if (record.size() < sizeof message) return false;
  std::memcpy(&message, record.data(), sizeof message);
  switch (message.kind) {
    case PeerMessage::Kind::kAskTable:
      (void)send_message(connection.fd.get(), {PeerMessage::Kind::kTable, self_}, {&table_fd_, 1});
      return true;  // the newcomer closes when it has read it
    case PeerMessage::Kind::kHello:
      if (message.slot < kFirstSlot || message.slot > kLastSlot) return false;
      connection.slot = static_cast<uint8_t>(message.slot);
      return true;
    case PeerMessage::Kind::kPacket: {
      PacketHead head;
      if (record.size() < sizeof message + sizeof head) return false;
      std::memcpy(&head, record.data() + sizeof message, sizeof head);
      events.on_forwarded({.bytes = record.subspan(sizeof message + sizeof head),
                           .source = {head.source},
                           .destination = {head.destination},
                           .source_port = head.source_port,
                           .traffic_class = head.traffic_class,
                           .hop_limit = head.hop_limit},
                          std::max<uint32_t>(head.segment, 1));
      return true;
    }
    case PeerMessage::Kind::kRoom: events.on_woken(); return true;
    case PeerMessage::Kind::kRing:
      events.on_ring(connection.slot, message.incarnation, passed[0], passed[1]);
      return true;
    case PeerMessage::Kind::kBell:
      events.on_bell(connection.slot, message.incarnation, passed[0]);
      return true;
    case PeerMessage::Kind::kNoRing: events.on_no_ring(connection.slot); return true;
    case PeerMessage::Kind::kBye:
    case PeerMessage::Kind::kTable:  return false;
  }
  return false;
}

void Peers::read(int fd, PeerEvents& events) {
  for (size_t count = 0; count < kMaxRecords; ++count) {
    // Looked up each time: what an event causes may move or close connections.
    const auto it =
        std::ranges::find_if(connections_, [fd](const Connection& c) { return c.fd.get() == fd; });
    if (it == connections_.end()) return;
    std::array<UniqueFd, kMaxPassed> passed;
    const ssize_t got = receive_record(fd, record_, passed);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0 && handle(*it, {record_.data(), static_cast<size_t>(got)}, passed, events)) {
      continue;
    }
    const auto again =
        std::ranges::find_if(connections_, [fd](const Connection& c) { return c.fd.get() == fd; });
    const bool held = again != connections_.end();
    const uint8_t slot = held ? again->slot : uint8_t{0};
    const bool watched = held && again->watched;
    close(fd);
    if ((got <= 0 || watched) && slot != 0) events.on_peer_gone(slot);
    return;
  }
}

void Peers::abandon() {
  listener_.reset();
  connections_.clear();
}

}  // namespace verbena::link
