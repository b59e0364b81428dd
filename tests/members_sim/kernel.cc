// SPDX-License-Identifier: Apache-2.0
#include "members_sim/kernel.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "link/name_holder.h"
#include "link/steering.h"
#include "link/udp_transmitter.h"

namespace verbena::members_sim {
namespace {

constexpr size_t kAcknowledgementBytes = 20;

[[nodiscard]] uint64_t charge_of(const Kernel::Datagram& datagram) {
  const auto bytes = static_cast<uint32_t>(datagram.bytes.size());
  return link::datagram_cost(bytes, datagram.segment == 0 ? bytes : datagram.segment);
}

}  // namespace

Kernel::Kernel(Scheduler& scheduler)
    : scheduler_(scheduler), nothing_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  current_ = this;
  // What is found out once is found out here: each world has the same steps.
  std::array<int, 2> ends{};
  VERBENA_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
  (void)link::identify_peer(ends[0], ::geteuid());
  for (const int fd : ends) ::close(fd);
}

// What is left was on the stacks of dead threads.
Kernel::~Kernel() {
  current_ = nullptr;
  for (const auto& [fd, owner] : owners_) ::close(fd);
}

// --- descriptors

int Kernel::opened(int fd) {
  if (fd >= 0) owners_[fd] = scheduler_.process();
  return fd;
}

void Kernel::closing(int fd) {
  scheduler_.set_timer(fd, kNever);
  source_ports_.erase(fd);
  if (claim_ == fd) claim_ = -1;
  const auto socket = std::ranges::find(sockets_, fd, &Socket::receive);
  if (socket != sockets_.end()) {
    while (receive(fd)) {}
    // The last takes its index.
    if (&*socket != &sockets_.back()) *socket = std::move(sockets_.back());
    sockets_.pop_back();
  }
  owners_.erase(fd);
  scheduler_.on_write();
}

void Kernel::close_all(uint32_t process) {
  for (;;) {
    std::vector<int> left;
    for (const auto& [fd, owner] : owners_) {
      if (owner == process) left.push_back(fd);
    }
    if (left.empty()) return;
    const int fd = left[scheduler_.random().below(left.size())];
    closing(fd);
    // The number stays taken until what refers to it is gone.
    VERBENA_CHECK(::dup3(nothing_.get(), fd, O_CLOEXEC) == fd);
    scheduler_.point();
  }
}

size_t Kernel::open_descriptors(uint32_t process) const {
  return static_cast<size_t>(
      std::ranges::count(owners_, process, [](const auto& one) { return one.second; }));
}

int Kernel::open_timer() { return opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

// --- UDP sockets

link::UdpSockets Kernel::open_socket() {
  link::UdpSockets made{.receive = UniqueFd(opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
                        .send = UniqueFd(opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
                        .receive_buffer = kReceiveBuffer,
                        .source_port = ++last_port_,
                        .gso = gso};
  sockets_.push_back({made.receive.get(), scheduler_.process()});
  source_ports_[made.send.get()] = made.source_port;
  return made;
}

int Kernel::claim_port() {
  if (claim_ >= 0 || !sockets_.empty()) return -1;
  return claim_ = opened(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void Kernel::deliver(Datagram datagram) {
  const std::span<const uint8_t> bytes = datagram.bytes;
  if (sockets_.empty() || bytes.size() <= std::max(link::kSlotByte, link::kProbeIndexByte)) return;
  const uint8_t slot = bytes[link::kSlotByte];
  const auto steered = std::ranges::find(program_, slot);
  size_t index =
      slot == 0xff ? bytes[link::kProbeIndexByte] : static_cast<size_t>(steered - program_.begin());
  // Past the end: as the flow's hash says.
  if (index >= sockets_.size() || (slot != 0xff && steered == program_.end())) {
    index = datagram.source_port % sockets_.size();
  }
  Socket& socket = sockets_[index];
  const uint64_t charge = charge_of(datagram);
  if (loses_one_of != 0 && scheduler_.random().below(loses_one_of) == 0) {
    ++lost_;
    if (on_left) on_left(socket.owner, bytes);
    return;
  }
  // It takes what comes while it is not full.
  if (drops && socket.charged >= kReceiveBuffer) {
    if (bytes.size() > kAcknowledgementBytes) ++dropped_;
    if (on_left) on_left(socket.owner, bytes);
    return;
  }
  socket.charged += charge;
  socket.queue.push_back(std::move(datagram));
  const uint64_t one = 1;
  VERBENA_CHECK(::syscall(SYS_write, socket.receive, &one, sizeof one) == sizeof one);
  scheduler_.on_write();
}

bool Kernel::deliver_from(int send_fd, Datagram datagram) {
  const auto port = source_ports_.find(send_fd);
  if (port == source_ports_.end()) return false;
  datagram.source_port = port->second;
  deliver(std::move(datagram));
  return true;
}

bool Kernel::is_receiver(int fd) const {
  return std::ranges::find(sockets_, fd, &Socket::receive) != sockets_.end();
}

std::optional<Kernel::Datagram> Kernel::receive(int fd) {
  const auto socket = std::ranges::find(sockets_, fd, &Socket::receive);
  if (socket == sockets_.end() || socket->queue.empty()) return std::nullopt;
  Datagram datagram = std::move(socket->queue.front());
  socket->queue.pop_front();
  socket->charged -= charge_of(datagram);
  if (socket->queue.empty()) {
    uint64_t count = 0;
    (void)!::syscall(SYS_read, fd, &count, sizeof count);
  }
  if (on_left) on_left(socket->owner, datagram.bytes);
  return datagram;
}

std::vector<uint32_t> Kernel::order() const {
  std::vector<uint32_t> owners;
  for (const Socket& socket : sockets_) owners.push_back(socket.owner);
  return owners;
}

}  // namespace verbena::members_sim

// --- in place of src/link's

namespace verbena::link {

using members_sim::Kernel;

Result<UdpSockets, SocketError> open_udp(Family family, const UdpOptions&, uint64_t) {
  if (family == Family::kIpv6) return fail(SocketError{"socket", EAFNOSUPPORT});
  return Kernel::current()->open_socket();
}

Result<UniqueFd, int> claim_port(uint16_t) {
  const int claim = Kernel::current()->claim_port();
  if (claim < 0) return fail(EADDRINUSE);
  return UniqueFd(claim);
}

bool can_share_port(uint16_t) { return true; }

int attach_steering(int, std::span<const uint8_t> order, const ManagementAttributes&) {
  Kernel::current()->attach(order);
  return 0;
}

}  // namespace verbena::link
