// SPDX-License-Identifier: Apache-2.0
// The memory that all members on a host share: a memfd that every member maps. Unused parts are
// zero.
//
// Who may write what:
//   slots, orders, generations           the holder of the lock (table_lock.h)
//   inboxes, credits, counters, bells    as their fields say, without a lock
//   the tables at the end                the holder of the lock
// Reading needs no lock. A holder may be killed between any two stores: the next one repairs what
// it finds (roster.h). Other members are of the same user and may crash, but not crash us: numbers
// read here are checked before they index anything.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pthread.h>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "link/ports.h"
#include "link/udp_socket.h"
#include "wire/gid.h"

namespace verbena::link {

inline constexpr size_t kSlots = 256;
inline constexpr uint8_t kGsiSlot = 0;  // queue pair numbers 0 and 1: any member's
inline constexpr uint8_t kFirstSlot = 1;
inline constexpr uint8_t kLastSlot = 254;
inline constexpr uint8_t kProbeSlot =
    255;  // probes of the steering, and the multicast QPN 0xffffff
inline constexpr size_t kFamilies = 2;
inline constexpr size_t kCacheLine = 64;

[[nodiscard]] constexpr size_t index_of(Family family) { return family == Family::kIpv4 ? 0 : 1; }
[[nodiscard]] constexpr Family family_of(const wire::Gid& address) {
  return address.is_ipv4() ? Family::kIpv4 : Family::kIpv6;
}

struct alignas(kCacheLine) SlotRecord {
  // Odd: taken. Rises when the slot is taken and when it is freed, so a new owner is never mistaken
  // for the old.
  std::atomic<uint32_t> incarnation;
  std::atomic<uint32_t> pid;
  std::atomic<int64_t> freed_at_ns;
  std::array<std::atomic<uint16_t>, kFamilies> source_port;  // 0: the family is absent
  std::atomic<uint32_t>
      budget;  // what may lie in the receive buffer at once, in the transmitter's costs
  std::atomic<uint32_t>
      polling;  // by the owner: it asks for credits again by itself, no need to wake it
  std::atomic<uint32_t> takes_rings;  // from its start: it reads rings in shared memory as well
  std::atomic<uint64_t> suffix;       // of its name (member_names.h); 0: it has the plain one
};

// Whether a member sleeps and wants to be told of what is put in its rings. It sets the flag and
// then looks once more; who puts something there takes the flag and rings.
struct alignas(kCacheLine) Doorbell {
  std::atomic<uint32_t> asleep;
};

// The sockets of one reuseport group as the kernel counts them: slot[i] owns index i.
struct alignas(kCacheLine) GroupOrder {
  std::atomic<uint32_t> count;
  std::array<std::atomic<uint8_t>, kSlots> slot;
};

// How full a member's receive buffer is. Senders add, the owner subtracts.
struct alignas(kCacheLine) Inbox {
  std::atomic<int64_t> outstanding;
  // A bit for each sender that was refused. `waiting`: the others keep to their share until it was
  // served, or the owner finds its socket empty. `wake`: the owner takes the bit and wakes the
  // sender when there is room.
  alignas(kCacheLine) std::array<std::atomic<uint64_t>, kSlots / 64> waiting;
  std::array<std::atomic<uint64_t>, kSlots / 64> wake;
};

// One sender and one receiver; cumulative costs. consumed <= sent <= granted, and the inbox's
// `outstanding` is the sum of granted - consumed over all senders, give or take what is between two
// instructions.
struct CreditPair {
  alignas(kCacheLine) std::atomic<uint64_t> granted;   // by the sender: reserved in the inbox
  std::atomic<uint64_t> sent;                          // by the sender: of that, used
  alignas(kCacheLine) std::atomic<uint64_t> consumed;  // by the receiver
};

// What a member's device did, each number since the group's first member came; the order is that of
// enum class PortCounter.
enum class PortCounter : uint8_t {
  // Traffic: current after every batch.
  kSentBytes,
  kSentPackets,
  kReceivedBytes,
  kReceivedPackets,
  // Trouble: at most a moment old.
  kNotSent,    // packets that the system did not take, or whose receiver takes nothing or is gone
  kMalformed,  // packets that are none, or have a wrong ICRC
  kOverflow,   // packets that the system dropped for want of room
  kDuplicateRequest,
  kOutOfSequenceRequest,
  kRnrNakReceived,
  kRnrNakSent,
  kSequenceNakReceived,
  kRetryExceeded,
  kRnrRetryExceeded,
  kSentAgain,
  kNotAMember,  // packets from this host that are no member's
  kCount
};
inline constexpr size_t kPortCounters = static_cast<size_t>(PortCounter::kCount);
struct alignas(kCacheLine) MemberCounters {
  // By the slot's owner: relaxed, for each number is whole by itself.
  std::array<std::atomic<uint64_t>, kPortCounters> value;
};

struct SharedTable {
  static constexpr uint64_t kMagic = 0x56657262656e6131;  // "Verbena1"
  static constexpr uint32_t kVersion = 7;

  uint64_t magic;
  uint32_t version;
  uint32_t bytes;
  uint64_t key;                              // random: probes that do not carry it are not ours
  alignas(kCacheLine) pthread_mutex_t lock;  // table_lock.h

  alignas(
      kCacheLine) std::atomic<uint32_t> generation;  // rises with every change of slots or orders
  std::atomic<uint32_t> steered;  // the generation the attached programs were made for
  std::atomic<uint32_t>
      membership;  // rises when a socket is added or removed: what was probed before is void
  std::atomic<uint32_t> probed_membership;  // the latest probes, so that not everybody sends them
  std::atomic<int64_t> probed_at_ns;
  // The generation in which a socket last took the index of another: programs made before it
  // mislead.
  std::atomic<uint32_t> moved;
  std::array<GroupOrder, kFamilies> orders;
  std::array<SlotRecord, kSlots> slots;
  std::array<Inbox, kSlots> inboxes;
  std::array<std::array<CreditPair, kSlots>, kSlots>
      credits;  // [receiver][sender]; pages come with use
  std::array<MemberCounters, kSlots> counters;
  std::array<Doorbell, kSlots> doorbells;

  PortTable ports;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint8_t>::is_always_lock_free);

[[nodiscard]] inline bool is_taken(uint32_t incarnation) { return (incarnation & 1) != 0; }

// The mapping, and the descriptor that is handed on.
class TableMapping {
 public:
  enum class Error : uint8_t { kSystem, kNotOurs, kVersion };

  TableMapping() = default;
  TableMapping(TableMapping&& other) noexcept;
  TableMapping& operator=(TableMapping&& other) noexcept;
  ~TableMapping();

  // A fresh one; `name` is for people reading /proc.
  [[nodiscard]] static Result<TableMapping, Error> create(const char* name, uint64_t key);
  // One that another member handed out, or that was found: checked before it is believed.
  [[nodiscard]] static Result<TableMapping, Error> adopt(UniqueFd fd);

  [[nodiscard]] SharedTable& table() const { return *table_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // In a forked child: a table of nobody takes its place.
  void abandon();

 private:
  [[nodiscard]] static Result<TableMapping, Error> map(UniqueFd fd);
  UniqueFd fd_;
  SharedTable* table_ = nullptr;
};

}  // namespace verbena::link
