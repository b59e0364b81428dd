// SPDX-License-Identifier: Apache-2.0
// A member that hands out what is no ring and no bell, or writes into its ring what no sender
// writes.
#include <array>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include "link/bell.h"
#include "link/peers.h"
#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    VERBENA_CHECK(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    in.reset(ends[0]);
    out.reset(ends[1]);
  }
  UniqueFd in;
  UniqueFd out;
};

class HostileRingTest : public SharedLinkTest {
 protected:
  void offer() {
    EXPECT_TRUE(liar_.host->offer_ring(victim_.slot(), made_.fd.get(), bell_.get()));
    victim_.hear();
  }
  void put(RecordHead head, std::span<const uint8_t> headers, uint8_t fill = 0) {
    head.header_bytes = static_cast<uint8_t>(headers.size());
    ASSERT_TRUE(writer_.has_room(head.payload_bytes));
    const RingWriter::Room room = writer_.begin(head);
    std::ranges::copy(headers, room.headers);
    std::fill_n(room.payload, head.payload_bytes, fill);
    writer_.publish(head);
  }
  void put_flow(const wire::Gid& source, const wire::Gid& destination,
                size_t bytes = sizeof(RingFlow)) {
    RingFlow flow{source.bytes, destination.bytes, 0, 64};
    std::array<uint8_t, Ring::kMaxHeaderBytes> raw{};
    std::memcpy(raw.data(), &flow, sizeof flow);
    put({.kind = RecordKind::kFlow}, std::span(raw).first(bytes));
  }
  void put_flow() { put_flow(kLoopback, kLoopback); }
  void put_packet(const wire::Bth& bth, uint32_t payload, size_t header_bytes = 12) {
    std::array<uint8_t, wire::Bth::kBytes> headers;
    bth.write(headers.data());
    put({.payload_bytes = payload, .packets = 1, .kind = RecordKind::kPacket},
        std::span(headers).first(header_bytes));
  }
  void put_run(uint16_t packets, uint32_t payload) {
    std::array<uint8_t, wire::Bth::kBytes> headers;
    wire::Bth{.opcode = kWriteMiddle, .dest_qp = victim_.qpn()}.write(headers.data());
    put({.payload_bytes = payload, .packets = packets, .kind = RecordKind::kRun}, headers);
  }
  [[nodiscard]] wire::Bth good() const {
    return {.opcode = kSendOnly, .dest_qp = victim_.qpn(), .psn = wire::Psn(9)};
  }
  // That so many records were refused, no packet passed on, and one that is right still is.
  void expect_refused(uint64_t records) {
    (void)victim_.serve();
    EXPECT_EQ(victim_.bad_records(), records);
    EXPECT_TRUE(victim_.arrived.empty());
    put_flow();
    put_packet(good(), 8);
    (void)victim_.serve();
    EXPECT_EQ(victim_.arrived.size(), 1);
    EXPECT_EQ(victim_.bad_records(), records);
  }
  [[nodiscard]] uint64_t parse_errors() const {
    uint64_t sum = 0;
    for (const uint64_t count : victim_.link->intake_counters().parse_errors) sum += count;
    return sum;
  }

  Node& victim_ = join();
  RawMember& liar_ = join_raw();
  Ring::Made made_ = Ring::make(Ring::kLeastBytes).value();
  UniqueFd bell_ = make_bell();
  RingWriter writer_{Ring::adopt(made_.fd.get()).value()};
};

// --- records

TEST_F(HostileRingTest, AFlowHasAddressesOfThisHost) {
  const wire::Gid foreign = wire::Gid::from_ipv4(192, 0, 2, 1);
  offer();
  put_flow();
  put_flow(foreign, kLoopback);
  put_packet(good(), 8);  // belongs to no flow
  put_flow(kLoopback, foreign);
  put_packet(good(), 8);
  put_flow({}, {});
  put_run(2, 64);
  expect_refused(6);
}

TEST_F(HostileRingTest, AFlowHasOneLength) {
  offer();
  for (const size_t bytes :
       std::array<size_t, 5>{0, 1, sizeof(RingFlow) - 1, sizeof(RingFlow) + 1, 56})
    put_flow(kLoopback, kLoopback, bytes);
  put_packet(good(), 8);
  expect_refused(6);
}

TEST_F(HostileRingTest, NothingComesBeforeAFlow) {
  offer();
  put_packet(good(), 8);
  put_run(2, 64);
  expect_refused(2);
}

TEST_F(HostileRingTest, NoKindIsUnknown) {
  offer();
  put_flow();
  const std::array<uint8_t, 12> headers{};
  put({.packets = 1, .kind = RecordKind{0}}, headers);
  for (uint32_t kind = 4; kind <= 255; ++kind) {
    put({.packets = 1, .kind = static_cast<RecordKind>(kind)}, headers);
  }
  expect_refused(253);
}

TEST_F(HostileRingTest, NobodyIsSentWhatIsAnothers) {
  offer();
  put_flow();
  wire::Bth bth = good();
  for (const uint32_t slot :
       {0U, (victim_.slot() + 1) & 0xffU, uint32_t{liar_.host->slot()}, uint32_t{kProbeSlot}}) {
    bth.dest_qp = Qpn(slot << 16 | 5);
    put_packet(bth, 8);
  }
  bth.dest_qp = Qpn(0xffffff);
  put_packet(bth, 8);
  expect_refused(5);
}

// Each of its packets by itself.
TEST_F(HostileRingTest, NobodyIsSentARunThatIsAnothers) {
  offer();
  put_flow();
  std::array<uint8_t, wire::Bth::kBytes> headers;
  wire::Bth{.opcode = kWriteMiddle, .dest_qp = liar_.qpn()}.write(headers.data());
  put({.payload_bytes = 256, .packets = 4, .kind = RecordKind::kRun}, headers);
  expect_refused(4);
  EXPECT_EQ(victim_.runs, 0);
}

TEST_F(HostileRingTest, ARunIsOfPacketsOfOneLength) {
  offer();
  put_flow();
  put_run(0, 0);
  put_run(0, 64);
  put_run(1, 64);
  put_run(2, 0);
  put_run(2, 63);              // not the same
  put_run(2, 2 * 62);          // not whole words
  put_run(2, 2 * (4096 + 4));  // too long
  put_run(65'535, 64 * 1024);  // less than one byte each
  (void)victim_.serve();
  put_run(0xffff, 0xffff);  // one byte each
  expect_refused(9);
  EXPECT_EQ(victim_.runs, 0);
}

TEST_F(HostileRingTest, ARunHasOneHeader) {
  offer();
  put_flow();
  std::array<uint8_t, 28> headers{};
  wire::Bth{.opcode = kWriteMiddle, .dest_qp = victim_.qpn()}.write(headers.data());
  for (const size_t bytes : {0, 11, 13, 28}) {
    put({.payload_bytes = 128, .packets = 2, .kind = RecordKind::kRun},
        std::span(headers).first(bytes));
  }
  expect_refused(4);
}

TEST_F(HostileRingTest, APacketIsAsLongAsItsHeadersSay) {
  offer();
  put_flow();
  uint64_t wrong = 0;
  for (const size_t bytes : {0, 1, 11}) {
    put_packet(good(), 8, bytes);
    ++wrong;
  }
  for (const uint32_t payload : {4097U, 4100U, Ring::kMaxPayloadBytes}) {
    put_packet(good(), payload);
    ++wrong;
    (void)victim_.serve();
  }
  for (const uint32_t payload : {1U, 2U, 3U}) {  // and no pad
    put_packet(good(), payload);
    ++wrong;
  }
  wire::Bth bth = good();
  bth.opcode = kWriteMiddle;
  put_packet(bth, 0);  // has none, and must have
  ++wrong;
  bth.opcode = 0xff;
  put_packet(bth, 8);
  ++wrong;
  expect_refused(0);
  EXPECT_EQ(parse_errors(), wrong);
}

// A message to QP1 is read more than once, so it is copied: no longer than it may be.
TEST_F(HostileRingTest, AMessageToQp1IsNoLongerThanAPacket) {
  offer();
  put_flow();
  std::array<uint8_t, 20> headers{};
  wire::Bth{.opcode = 0x64, .dest_qp = kGsiQpn}.write(headers.data());  // UD SEND only
  for (const uint32_t payload : {4096U, 4100U, Ring::kMaxPayloadBytes}) {
    put({.payload_bytes = payload, .packets = 1, .kind = RecordKind::kPacket}, headers, 7);
    (void)victim_.serve();
  }
  ASSERT_EQ(victim_.arrived.size(), 1);
  EXPECT_EQ(victim_.arrived[0].payload, std::vector<uint8_t>(4096, 7));
  EXPECT_EQ(parse_errors(), 2);
}

TEST_F(HostileRingTest, ABrokenRingIsCountedOnceAndHoldsUpNobody) {
  Node& other = join();
  introduce(other, victim_);
  offer();
  put_flow();
  const RingFile file(made_.fd.get(), Ring::kLeastBytes);
  file.data_word(writer_.written()).store(~uint64_t{0});
  for (uint32_t i = 0; i < 10; ++i) {
    other.send_and_flush(victim_, i);
    (void)victim_.serve();
  }
  EXPECT_EQ(victim_.arrived.size(), 10);
  EXPECT_EQ(victim_.bad_records(), 1);
  EXPECT_TRUE(victim_.link->prepare_sleep());
  // It may begin anew.
  made_ = Ring::make(Ring::kLeastBytes).value();
  writer_ = RingWriter(Ring::adopt(made_.fd.get()).value());
  offer();
  put_flow();
  put_packet(good(), 8);
  (void)victim_.serve();
  EXPECT_EQ(victim_.arrived.size(), 11);
}

// --- what is handed out

TEST_F(HostileRingTest, WhatIsNoRingIsRefused) {
  const Pipe pipe;
  const UniqueFd open(::memfd_create("verbena.test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 65'536 + Ring::kLeastBytes), 0);
  uint32_t offers = 0;
  for (const int fd : {pipe.out.get(), pipe.in.get(), open.get(), bell_.get()}) {
    EXPECT_TRUE(liar_.host->offer_ring(victim_.slot(), fd, bell_.get()));
    victim_.hear();
    liar_.hear();
    EXPECT_EQ(liar_.refusals, ++offers);
  }
  EXPECT_FALSE(liar_.bell.valid());  // and not told of a bell
  EXPECT_EQ(victim_.serve(), 0);
}

TEST_F(HostileRingTest, AMessageWithoutItsDescriptorsIsRefused) {
  const GroupNames names(options_.group, options_.udp.port);
  const auto connection = connect_to(names.member(victim_.slot()));
  ASSERT_TRUE(connection);
  const uint32_t slot = liar_.host->slot();
  const uint32_t incarnation = liar_.host->incarnation(liar_.host->slot());
  ASSERT_TRUE(send_message(connection->get(), {PeerMessage::Kind::kHello, slot}));
  for (const auto kind : {PeerMessage::Kind::kRing, PeerMessage::Kind::kBell}) {
    ASSERT_TRUE(send_message(connection->get(), {kind, slot, incarnation}));
    ASSERT_TRUE(send_message(connection->get(), {kind, slot, incarnation}, {{bell_.get()}}));
  }
  victim_.hear();
  liar_.hear();
  EXPECT_EQ(liar_.refusals, 2);
}

TEST_F(HostileRingTest, OnlyAMemberAsItIsNowOffersRings) {
  const GroupNames names(options_.group, options_.udp.port);
  const auto connection = connect_to(names.member(victim_.slot()));
  ASSERT_TRUE(connection);
  const uint8_t slot = liar_.host->slot();
  const uint32_t incarnation = liar_.host->incarnation(slot);
  const std::array<int, 2> passed{made_.fd.get(), bell_.get()};
  const auto say = [&](uint32_t claimed) {
    EXPECT_TRUE(send_message(connection->get(), {PeerMessage::Kind::kRing, slot, claimed}, passed));
    victim_.hear();
  };
  put_flow();
  put_packet(good(), 8);
  say(incarnation);  // has not said who it is
  ASSERT_TRUE(send_message(connection->get(), {PeerMessage::Kind::kHello, slot}));
  for (const uint32_t claimed : {0U, incarnation - 1, incarnation - 2, incarnation + 2, ~0U}) {
    say(claimed);
  }
  EXPECT_EQ(victim_.serve(), 0);
  say(incarnation);
  EXPECT_EQ(victim_.serve(), 2);
}

TEST_F(HostileRingTest, ABellIsAnEventfdThatDoesNotBlock) {
  const Pipe pipe;
  const UniqueFd blocking(::eventfd(0, EFD_CLOEXEC));
  const UniqueFd memory(::memfd_create("anon_inode:[eventfd]", MFD_CLOEXEC));
  const UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const UniqueFd file(::open("/dev/null", O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  for (const int fd :
       {-1, 9999, pipe.out.get(), blocking.get(), memory.get(), timer.get(), file.get()}) {
    EXPECT_FALSE(is_bell(fd)) << fd;
  }
  EXPECT_TRUE(is_bell(bell_.get()));
}

// The ring is read all the same; who handed it out is told by its connection.
TEST_F(HostileRingTest, WhatIsNoBellIsNotRung) {
  const Pipe pipe;
  const UniqueFd blocking(::eventfd(0, EFD_CLOEXEC));
  for (const int bell : {pipe.out.get(), blocking.get()}) {
    made_ = Ring::make(Ring::kLeastBytes).value();
    writer_ = RingWriter(Ring::adopt(made_.fd.get()).value());
    EXPECT_TRUE(liar_.host->offer_ring(victim_.slot(), made_.fd.get(), bell));
    victim_.hear();
    put_flow();
    writer_.ask_for_room();
    const uint32_t before = liar_.woken;
    EXPECT_EQ(victim_.serve(), 1);
    liar_.hear();
    EXPECT_EQ(liar_.woken, before + 1);
    EXPECT_FALSE(is_readable(pipe.in.get()));
    EXPECT_FALSE(is_readable(blocking.get()));
  }
}

// Rung once by whoever takes the flag.
TEST_F(HostileRingTest, WhoAsksForRoomIsRung) {
  offer();
  put_flow();
  writer_.ask_for_room();
  (void)victim_.serve();
  EXPECT_EQ(rings_of(bell_.get()), 1);
  put_flow();
  (void)victim_.serve();
  EXPECT_EQ(rings_of(bell_.get()), 0);
}

// --- who cannot read rings

TEST_F(SharedLinkTest, WhoRefusesARingGetsDatagrams) {
  Node& a = join();
  RawMember& b = join_raw();
  b.refuses = true;
  const std::vector<uint8_t> payload(8);
  a.send(b.qpn(), 0, payload);
  a.link->flush();
  EXPECT_EQ(a.datagrams_sent(), 0);
  b.hear();
  a.hear();
  b.refuses = false;
  for (uint32_t i = 1; i < 4; ++i) {
    a.send(b.qpn(), i, payload);
    a.link->flush();
  }
  EXPECT_EQ(a.datagrams_sent(), 4);  // with what was in the ring
  b.hear();
  EXPECT_FALSE(b.ring.valid());  // it is not asked again
}

// Without descriptors there is no ring; and no connection on which to say so, but that which the
// other one made.
TEST_F(SharedLinkTest, AReceiverThatCannotTakeARingGetsDatagrams) {
  Node& b = join();
  Node& a = join();  // has a connection to b, by which it would notice its end
  b.hear();
  a.send_and_flush(b, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  b.link->on_ready(monotonic_now(), true);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(b.serve(), 0);
  a.hear();
  a.send_and_flush(b, 2);
  EXPECT_EQ(a.datagrams_sent(), 2);  // with what was in the ring
  (void)b.serve();
  EXPECT_EQ(b.psns(), (std::vector<uint32_t>{1, 2}));
  b.send_and_flush(a, 3);
  (void)a.serve();
  EXPECT_EQ(a.psns(), std::vector<uint32_t>{3});
  EXPECT_EQ(b.datagrams_sent(), 0);
}

}  // namespace
}  // namespace verbena::link::testing
