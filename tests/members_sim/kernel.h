// SPDX-License-Identifier: Apache-2.0
// What the simulated members take for their kernel. Unix sockets, epoll and memory are the real
// one's; whose descriptors are whose, timers, and the UDP sockets on the shared port are its own:
// a group of sockets in the order in which the kernel counts them, and the program that steers.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "link/udp_socket.h"
#include "progress_sim/scheduler.h"

namespace verbena::members_sim {

using progress_sim::Scheduler;

class Kernel {
 public:
  explicit Kernel(Scheduler& scheduler);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  [[nodiscard]] static Kernel* current() { return current_; }

  // --- descriptors
  // By the process whose thread runs.
  [[nodiscard]] int opened(int fd);
  // About to be.
  void closing(int fd);
  // The process is dead: they are closed one by one, and others run in between.
  void close_all(uint32_t process);
  [[nodiscard]] size_t open_descriptors(uint32_t process) const;
  [[nodiscard]] int open_timer();

  // --- UDP sockets
  static constexpr uint32_t kReceiveBuffer = 60'000;
  [[nodiscard]] link::UdpSockets open_socket();
  // -1: somebody has the port.
  [[nodiscard]] int claim_port();
  void attach(std::span<const uint8_t> order) { program_.assign(order.begin(), order.end()); }
  // As it lies in a socket. With a segment it is several packets in one, each of that length.
  struct Datagram {
    uint16_t source_port = 0;
    std::array<uint8_t, 4> source{127, 0, 0, 1};
    std::array<uint8_t, 4> destination{127, 0, 0, 1};
    uint32_t segment = 0;
    std::vector<uint8_t> bytes{};
  };
  void deliver(Datagram datagram);
  // From the port that belongs to this sending socket. False: it is none.
  bool deliver_from(int send_fd, Datagram datagram);
  [[nodiscard]] bool is_sender(int fd) const { return source_ports_.contains(fd); }
  [[nodiscard]] bool is_receiver(int fd) const;
  // Nothing: there is nothing.
  [[nodiscard]] std::optional<Datagram> receive(int fd);
  // Found no room in the socket, without acknowledgements, whose senders ask for none.
  [[nodiscard]] uint64_t dropped() const { return dropped_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }
  // Owners of the sockets, in the group's order.
  [[nodiscard]] std::vector<uint32_t> order() const;
  [[nodiscard]] const std::vector<uint8_t>& program() const { return program_; }
  // Told of what leaves a socket, for it is read or the socket closed: whose, and the bytes.
  std::function<void(uint32_t, std::span<const uint8_t>)> on_left;
  // Senders may give several packets at once.
  bool gso = false;
  // What finds a socket's buffer full is lost.
  bool drops = false;
  // So is one of so many, on average: somebody else filled the socket. 0: none.
  uint64_t loses_one_of = 0;

 private:
  struct Socket {
    int receive = -1;  // an eventfd: readable while there is something
    uint32_t owner = 0;
    uint64_t charged = 0;  // for what lies in it
    std::deque<Datagram> queue{};
  };

  static inline Kernel* current_ = nullptr;
  Scheduler& scheduler_;
  std::map<int, uint32_t> owners_;
  UniqueFd nothing_;  // takes the place of what a dead process had
  std::vector<Socket> sockets_;
  std::map<int, uint16_t> source_ports_;  // by sending socket
  std::vector<uint8_t> program_;
  uint16_t last_port_ = 0xc000;
  uint64_t dropped_ = 0;
  uint64_t lost_ = 0;
  int claim_ = -1;
};

}  // namespace verbena::members_sim
