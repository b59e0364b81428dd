// SPDX-License-Identifier: Apache-2.0
// Connections among the members of a host, over abstract unix names. They carry what does not go
// through the sockets on the RoCE port: the table for newcomers, packets that reached the wrong
// member, word that there is room again. And their end is how a member's death is noticed.
//
// Nothing here blocks. What members may have on the way to one of them (its budget, credits.h) fits
// into one connection should all of it go astray; beyond that, what a stopped or slow member does
// not take is dropped, and the transport recovers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "link/shared_table.h"
#include "link/udp_receiver.h"
#include "link/unix_names.h"

namespace verbena::link {

// One message is one SOCK_SEQPACKET record: this, then for kPacket a PacketHead and the packet.
// Both ends run on one machine and carry the same version of the table, so the structs travel as
// they are.
struct PeerMessage {
  enum class Kind : uint32_t {
    kAskTable = 1,  // from a newcomer; answered by kTable
    kTable,         // with the memfd
    kHello,         // from member `slot`: tell me when you go, I tell you
    kPacket,
    kRoom,    // you were refused credits: ask again
    kBye,     // closing this connection, not dying
    kRing,    // with two descriptors: a ring (ring.h) that I write, and what to ring for me
    kBell,    // with one: what to ring for me
    kNoRing,  // your ring cannot be read here
  };
  Kind kind{};
  uint32_t slot = 0;
  uint32_t incarnation = 0;  // kRing, kBell: of the slot
};

struct PacketHead {
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint32_t segment = 0;  // several of one length (the last may be shorter), or all of one
};

// With up to kMaxPassed descriptors.
inline constexpr size_t kMaxPassed = 2;
[[nodiscard]] bool send_message(int fd, const PeerMessage& message,
                                std::span<const int> passed = {});
// The descriptor that came with a kTable, or what else it was.
[[nodiscard]] std::optional<UniqueFd> receive_table(int fd);

class PeerEvents {
 public:
  virtual ~PeerEvents() = default;
  // A connection with this member ended without a kBye, or one that was watched ended.
  virtual void on_peer_gone(uint8_t slot) = 0;
  // One or several of `segment` bytes.
  virtual void on_forwarded(const Datagram& joined, uint32_t segment) = 0;
  // Rings in shared memory. Descriptors that are kept are moved from.
  virtual void on_ring(uint8_t slot, uint32_t incarnation, UniqueFd& ring, UniqueFd& bell) = 0;
  virtual void on_bell(uint8_t slot, uint32_t incarnation, UniqueFd& bell) = 0;
  virtual void on_no_ring(uint8_t slot) = 0;
  // There is room, or something in a ring.
  virtual void on_woken() = 0;
};

class Peers {
 public:
  // `table` has the others' names; `listener` has ours; `epoll` learns of all descriptors, `tag` in
  // the upper half of their data.
  Peers(const GroupNames& names, const SharedTable& table, uint8_t self, UniqueFd listener,
        int table_fd, int epoll, uint32_t tag);

  // The lower half of the epoll data.
  void on_ready(uint32_t data, PeerEvents& events);

  // Holds a connection with this member, so that its end is noticed. False if it cannot be had.
  bool watch(uint8_t slot);
  // One packet, or several of `segment` bytes for the same member. False: dropped.
  bool forward(uint8_t slot, const Datagram& joined, uint32_t segment);
  // False: it cannot be reached.
  bool wake(uint8_t slot);
  bool tell(uint8_t slot, PeerMessage message, std::span<const int> passed = {});
  // The same, on the connection by which it spoke: it may be unable to take another.
  bool answer(uint8_t slot, PeerMessage message, std::span<const int> passed = {});

  void abandon();

 private:
  static constexpr size_t kMaxConnections = 320;  // of them up to 254 watch
  static constexpr size_t kMaxOutgoing = 48;      // more are opened at the price of the oldest
  // As much as a datagram, and what goes before it.
  static constexpr size_t kMaxRecord = 65'536 + sizeof(PeerMessage) + sizeof(PacketHead);
  static constexpr size_t kMaxRecords =
      64;  // read from one connection before the others have their turn

  struct Connection {
    UniqueFd fd;
    uint8_t slot = 0;  // 0: has not said
    bool outgoing = false;
    uint64_t used = 0;
    bool watched = false;
  };

  [[nodiscard]] Connection* find(uint8_t slot, bool outgoing_only);
  [[nodiscard]] Connection* connect(uint8_t slot);
  [[nodiscard]] Connection* add(UniqueFd fd, uint8_t slot, bool outgoing);
  void make_room();
  void accept_all();
  void read(int fd, PeerEvents& events);
  // Whether the connection goes on.
  [[nodiscard]] bool handle(Connection& connection, std::span<const uint8_t> record,
                            std::span<UniqueFd> passed, PeerEvents& events);
  void close(int fd);

  const GroupNames& names_;
  const SharedTable& table_;
  uint8_t self_;
  UniqueFd listener_;
  int table_fd_;
  int epoll_;
  uint32_t tag_;
  std::vector<Connection> connections_;
  std::vector<uint8_t> record_;  // that is being read
  uint64_t clock_ = 0;
};

}  // namespace verbena::link
