// SPDX-License-Identifier: Apache-2.0
// A SOCK_DGRAM rsocket: a UDP socket, which is its number and its name, and UD queue pairs at the
// addresses that it is used from. The first datagrams to a peer go by UDP, with a header that says
// which queue pair is ours; when the peer has answered in kind, they go from queue pair to queue
// pair.
//
// There is no service thread as rdma-core has one: UDP messages are taken when the program calls
// in.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "rdmacm/address.h"
#include "rsocket/datagram_port.h"
#include "rsocket/socket.h"

namespace verbena::rsocket {

class DatagramSocket final : public Socket {
 public:
  // 0 or an error number; held once.
  [[nodiscard]] static int make(int domain, DatagramSocket*& made);

  [[nodiscard]] int number() const override { return udp_.get(); }
  [[nodiscard]] int bind(const sockaddr* address, socklen_t length) override;
  [[nodiscard]] int listen(int backlog) override;
  [[nodiscard]] int accept(Socket*& made) override;
  [[nodiscard]] int connect(const sockaddr* address, socklen_t length) override;
  [[nodiscard]] int shutdown(int how) override;
  [[nodiscard]] ssize_t receive(Pieces& into, int flags, sockaddr* from,
                                socklen_t* from_length) override;
  [[nodiscard]] ssize_t send(Pieces& from, int flags, const sockaddr* to,
                             socklen_t to_length) override;
  [[nodiscard]] int own_name(sockaddr* address, socklen_t* length) override;
  [[nodiscard]] int peer_name(sockaddr* address, socklen_t* length) override;
  [[nodiscard]] int set_option(int level, int name, const void* value, socklen_t length) override;
  [[nodiscard]] int get_option(int level, int name, void* value, socklen_t* length) override;
  void close() override;
  void leave(Clock::time_point) override {}

 protected:
  ~DatagramSocket() override;
  void progress() override VERBENA_REQUIRES(mutex_);
  [[nodiscard]] short state_of(short events) const override VERBENA_REQUIRES(mutex_);
  void arm() override VERBENA_REQUIRES(mutex_) { queue_.arm(); }
  [[nodiscard]] SleepSet sleep_set() const override VERBENA_REQUIRES(mutex_);
  void woken(const SleepSet& set) override VERBENA_REQUIRES(mutex_);

 private:
  struct Peer {
    rdmacm::Address address;
    DatagramPort* port;
    ibv_ah* way = nullptr;  // nullptr: by UDP
    uint32_t qpn = 0;
    uint32_t most = kDatagramBytes;
  };
  // One that was not read yet: in a port's place or, if it came by UDP, in one of our own.
  struct Waiting {
    rdmacm::Address from;
    DatagramPort* port;
    uint32_t place;
    std::span<const uint8_t> payload;
  };
  // Those that came by UDP: no more of them are kept.
  static constexpr uint32_t kUdpPlaces = 16;
  using UdpPlace = std::array<uint8_t, kDatagramBytes>;

  DatagramSocket(int domain, UniqueFd udp)
      : Socket(domain, SOCK_DGRAM), udp_(std::move(udp)), sizes_(settings().sizes) {}

  [[nodiscard]] int ensure_bound() VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int source_for(const rdmacm::Address& peer, rdmacm::Address& source) const
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] int port_at(const rdmacm::Address& source, DatagramPort*& port)
      VERBENA_REQUIRES(mutex_);
  // nullptr, and a negative error number or 0 if there is no room for one more.
  [[nodiscard]] Peer* peer_at(const rdmacm::Address& address, int& error) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] ssize_t send_by_udp(UdpOp op, const DatagramPort& port, const rdmacm::Address& to,
                                    Pieces& from, int flags) VERBENA_REQUIRES(mutex_);
  void take_udp() VERBENA_REQUIRES(mutex_);
  void on_udp(const rdmacm::Address& from, const UdpMessage& message) VERBENA_REQUIRES(mutex_);
  void take_completions() VERBENA_REQUIRES(mutex_);
  void on_received(DatagramPort& port, uint32_t place, uint32_t bytes) VERBENA_REQUIRES(mutex_);
  void keep_udp(const rdmacm::Address& from, std::span<const uint8_t> payload)
      VERBENA_REQUIRES(mutex_);
  void give_back(const Waiting& waiting) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool is_expected(const rdmacm::Address& from) const VERBENA_REQUIRES(mutex_) {
    return !connected_ || *connected_ == from;
  }
  [[nodiscard]] bool is_idle() const VERBENA_REQUIRES(mutex_);

  const UniqueFd udp_;
  Sizes sizes_ VERBENA_GUARDED_BY(mutex_);
  // Of each port, each way; known with the first port.
  uint32_t places_ VERBENA_GUARDED_BY(mutex_) = 0;
  DatagramQueue queue_ VERBENA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<DatagramPort>> ports_ VERBENA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Peer>> peers_ VERBENA_GUARDED_BY(mutex_);
  std::optional<rdmacm::Address> connected_ VERBENA_GUARDED_BY(mutex_);
  std::deque<Waiting> waiting_ VERBENA_GUARDED_BY(mutex_);
  std::unique_ptr<std::array<UdpPlace, kUdpPlaces>> udp_places_ VERBENA_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_udp_places_ VERBENA_GUARDED_BY(mutex_);
  bool shut_ VERBENA_GUARDED_BY(mutex_) = false;
};

}  // namespace verbena::rsocket
