// SPDX-License-Identifier: Apache-2.0
// Peers, their queue pairs, and what comes from them.
#include <algorithm>
#include <cerrno>

#include "rsocket/datagram.h"

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

// Who is known with a queue pair; each stands for an address handle of the device's.
constexpr size_t kMostPeers = 1024;
constexpr size_t kMostPorts = 16;
constexpr uint32_t kMostPlacesOfPort = 1024;
// UDP messages of one look.
constexpr int kMostAtOnce = 64;

}  // namespace

DatagramSocket::~DatagramSocket() {
  for (const auto& peer : peers_) {
    if (peer->way != nullptr) (void)ibv_destroy_ah(peer->way);
  }
}

int DatagramSocket::ensure_bound() {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* const name = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(udp_.get(), name, &length) != 0) return errno;
  const auto bound = Address::read(name);
  if (!bound || bound->port() != 0) return 0;
  const Address any = Address::wildcard(static_cast<sa_family_t>(domain()));
  return ::bind(udp_.get(), any.raw(), any.length()) == 0 ? 0 : errno;
}

int DatagramSocket::source_for(const Address& peer, Address& source) const {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  auto* const name = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(udp_.get(), name, &length) != 0) return errno;
  const auto bound = Address::read(name);
  if (!bound) return EINVAL;
  source = bound->unmapped();
  if (!bound->is_wildcard()) return 0;
  rdmacm::Route route;
  if (const int error = rdmacm::find_route(std::nullopt, peer, route); error != 0) return error;
  source = route.source;
  source.set_port(bound->port());
  return 0;
}

int DatagramSocket::port_at(const Address& source, DatagramPort*& port) {
  const auto place =
      std::ranges::find_if(ports_, [&](const auto& one) { return one->address() == source; });
  if (place != ports_.end()) {
    port = place->get();
    return 0;
  }
  if (ports_.size() == kMostPorts) return ENOBUFS;
  if (places_ == 0) {
    const uint32_t bytes = std::min(sizes_.receive_bytes, sizes_.send_bytes);
    places_ = std::clamp(bytes / kDatagramBytes, kUdpPlaces, kMostPlacesOfPort);
    udp_places_ = std::make_unique<std::array<UdpPlace, kUdpPlaces>>();
    for (uint32_t i = 0; i < kUdpPlaces; ++i) free_udp_places_.push_back(i);
  }
  std::unique_ptr<DatagramPort> made;
  const auto entries = static_cast<uint32_t>(2 * places_ * kMostPorts);
  const auto number = static_cast<uint32_t>(ports_.size());
  if (const int error = DatagramPort::make(source, queue_, places_, entries, number, made);
      error != 0) {
    return error;
  }
  ports_.push_back(std::move(made));
  port = ports_.back().get();
  return 0;
}

DatagramSocket::Peer* DatagramSocket::peer_at(const Address& address, int& error) {
  error = 0;
  const auto place =
      std::ranges::find_if(peers_, [&](const auto& one) { return one->address == address; });
  if (place != peers_.end()) return place->get();
  Address source;
  DatagramPort* port = nullptr;
  error = -ensure_bound();
  if (error == 0) error = -source_for(address, source);
  if (error == 0) error = -port_at(source, port);
  if (error != 0 || peers_.size() == kMostPeers) return nullptr;
  peers_.push_back(std::make_unique<Peer>(Peer{.address = address, .port = port}));
  return peers_.back().get();
}

ssize_t DatagramSocket::send_by_udp(UdpOp op, const DatagramPort& port, const Address& to,
                                    Pieces& from, int flags) {
  std::array<uint8_t, kMostHeaderBytes + kDatagramBytes> message;
  const HeaderBytes header = udp_header(op, port.qpn(), port.address());
  std::ranges::copy(header.used(), message.begin());
  const size_t bytes = from.left();
  from.copy_to(&message[header.length], bytes);
  const int kept = (flags & MSG_DONTWAIT) | MSG_NOSIGNAL;
  // A connected one needs no address of its peer, but of any other.
  const bool named = connected_ != to;
  const ssize_t sent = ::sendto(udp_.get(), message.data(), header.length + bytes, kept,
                                named ? to.raw() : nullptr, named ? to.length() : 0);
  return sent < 0 ? -errno : static_cast<ssize_t>(bytes);
}

void DatagramSocket::progress() {
  const size_t before = waiting_.size();
  take_udp();
  take_completions();
  if (waiting_.size() != before) ring();
}

void DatagramSocket::take_udp() {
  std::array<uint8_t, kMostHeaderBytes + kDatagramBytes> message;
  for (int i = 0; i < kMostAtOnce; ++i) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    auto* const name = reinterpret_cast<sockaddr*>(&from);
    const ssize_t bytes =
        ::recvfrom(udp_.get(), message.data(), message.size(), MSG_DONTWAIT, name, &length);
    if (bytes < 0) return;
    const auto sender = Address::read(name);
    const auto read = read_udp({message.data(), static_cast<size_t>(bytes)});
    if (sender && read) on_udp(sender->unmapped(), *read);
  }
}

void DatagramSocket::on_udp(const Address& from, const UdpMessage& message) {
  if (!is_expected(from)) return;
  int error = 0;
  Peer* const peer = peer_at(from, error);
  if (peer != nullptr) {
    if (message.op == UdpOp::kData) {
      Pieces nothing(nullptr, 0);
      (void)send_by_udp(UdpOp::kAnswer, *peer->port, from, nothing, MSG_DONTWAIT);
    }
    if (peer->way == nullptr) peer->way = peer->port->way_to(from, peer->most);
    peer->qpn = message.qpn;
  }
  if (message.op == UdpOp::kData) keep_udp(from, message.payload);
}

void DatagramSocket::keep_udp(const Address& from, std::span<const uint8_t> payload) {
  if (free_udp_places_.empty() || payload.size() > kDatagramBytes) return;
  const uint32_t place = free_udp_places_.back();
  free_udp_places_.pop_back();
  UdpPlace& to = (*udp_places_)[place];
  std::ranges::copy(payload, to.begin());
  waiting_.push_back(
      {.from = from, .port = nullptr, .place = place, .payload = {to.data(), payload.size()}});
}

void DatagramSocket::take_completions() {
  if (queue_.cq() == nullptr) return;
  std::array<ibv_wc, 16> completions;
  int count = 0;
  while ((count = ibv_poll_cq(queue_.cq(), static_cast<int>(completions.size()),
                              completions.data())) > 0) {
    for (const ibv_wc& completion : std::span(completions).first(static_cast<size_t>(count))) {
      const DatagramPort::Done done = DatagramPort::read(completion.wr_id);
      DatagramPort& port = *ports_[done.port];
      if (!done.received) {
        port.sent(done.place);
      } else if (completion.status == IBV_WC_SUCCESS) {
        on_received(port, done.place, completion.byte_len);
      }
    }
  }
}

void DatagramSocket::on_received(DatagramPort& port, uint32_t place, uint32_t bytes) {
  constexpr uint32_t kGrhLength = 40;
  const size_t length = bytes > kGrhLength ? bytes - kGrhLength : 0;
  const auto read = read_datagram({port.message_at(place), length});
  if (!read || !came_from(port.grh_at(place), read->from) || !is_expected(read->from)) {
    (void)port.receive_into(place);
    return;
  }
  waiting_.push_back({.from = read->from, .port = &port, .place = place, .payload = read->payload});
}

void DatagramSocket::give_back(const Waiting& waiting) {
  if (waiting.port != nullptr) {
    (void)waiting.port->receive_into(waiting.place);
  } else {
    free_udp_places_.push_back(waiting.place);
  }
}

bool DatagramSocket::is_idle() const {
  return std::ranges::all_of(ports_, [](const auto& port) { return port->idle(); });
}

}  // namespace verbena::rsocket
