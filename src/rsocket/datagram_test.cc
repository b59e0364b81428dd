// SPDX-License-Identifier: Apache-2.0
// Datagrams as programs use them.
#include <array>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

#include "rsocket/datagram_protocol.h"
#include "rsocket/test_streams.h"
#include "support/descriptors.h"

namespace verbena::rsocket {
namespace {

class Datagrams {
 public:
  Datagrams() : socket_(::rsocket(AF_INET, SOCK_DGRAM, 0)) {
    EXPECT_GE(socket_, 0) << std::strerror(errno);
    const sockaddr_in any = loopback();
    EXPECT_EQ(rbind(socket_, raw(any), sizeof any), 0);
    socklen_t length = sizeof address_;
    EXPECT_EQ(rgetsockname(socket_, raw(address_), &length), 0);
  }
  ~Datagrams() { EXPECT_EQ(rclose(socket_), 0); }

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] const sockaddr_in& address() const { return address_; }
  void send(const Datagrams& to, std::string_view text) const {
    EXPECT_EQ(rsendto(socket_, text.data(), text.size(), 0, raw(to.address_), sizeof to.address_),
              static_cast<ssize_t>(text.size()))
        << std::strerror(errno);
  }
  // With the port that it came from.
  [[nodiscard]] std::string receive(uint16_t* port = nullptr, int flags = 0) const {
    if (poll_for(socket_, POLLIN) == 0) return "nothing came";
    std::string text(4096, '\0');
    sockaddr_in from{};
    socklen_t length = sizeof from;
    const ssize_t bytes = rrecvfrom(socket_, text.data(), text.size(), flags, raw(from), &length);
    EXPECT_GE(bytes, 0) << std::strerror(errno);
    if (port != nullptr) *port = from.sin_port;
    text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
    return text;
  }

 private:
  int socket_;
  sockaddr_in address_{};
};

TEST(RsocketDatagram, GoBothWaysAndSayWhereTheyCameFrom) {
  const Datagrams one;
  const Datagrams two;
  // The first by UDP, the others from queue pair to queue pair.
  for (int i = 0; i < 50; ++i) {
    uint16_t port = 0;
    one.send(two, "there " + std::to_string(i));
    EXPECT_EQ(two.receive(&port), "there " + std::to_string(i));
    EXPECT_EQ(port, one.address().sin_port);
    two.send(one, "back " + std::to_string(i));
    EXPECT_EQ(one.receive(&port), "back " + std::to_string(i));
    EXPECT_EQ(port, two.address().sin_port);
  }
}

TEST(RsocketDatagram, KeepTheirBounds) {
  const Datagrams one;
  const Datagrams two;
  for (int round = 0; round < 3; ++round) {
    one.send(two, std::string(1500, 'a'));
    one.send(two, "");
    one.send(two, "b");
    EXPECT_EQ(two.receive(nullptr, MSG_PEEK).size(), 1500U);
    EXPECT_EQ(two.receive(), std::string(1500, 'a'));
    EXPECT_EQ(two.receive(), "");
    EXPECT_EQ(two.receive(), "b");
    std::array<char, 3> little{};
    one.send(two, "too long");
    ASSERT_NE(poll_for(two.socket(), POLLIN), 0);
    EXPECT_EQ(rrecv(two.socket(), little.data(), little.size(), 0), 3);
    EXPECT_FAILS(rrecv(two.socket(), little.data(), little.size(), MSG_DONTWAIT), EAGAIN);
    two.send(one, "x");
    EXPECT_EQ(one.receive(), "x");
  }
  const std::string large(2100, 'x');
  EXPECT_FAILS(
      rsendto(one.socket(), large.data(), large.size(), 0, raw(two.address()), sizeof(sockaddr_in)),
      EMSGSIZE);
  EXPECT_FAILS(rsend(one.socket(), "x", 1, 0), EDESTADDRREQ);
}

TEST(RsocketDatagram, OneThatIsConnectedHearsItsPeerAlone) {
  const Datagrams one;
  const Datagrams two;
  const Datagrams stranger;
  for (int i = 0; i < 3; ++i) {  // until all know each other
    stranger.send(one, "early");
    EXPECT_EQ(one.receive(), "early");
    one.send(stranger, "yes");
    EXPECT_EQ(stranger.receive(), "yes");
  }
  ASSERT_EQ(rconnect(one.socket(), raw(two.address()), sizeof(sockaddr_in)), 0);
  for (int i = 0; i < 5; ++i) {
    stranger.send(one, "from a stranger");
    two.send(one, "from the peer");
    EXPECT_EQ(one.receive(), "from the peer");
    write_all(one.socket(), "answer");
    EXPECT_EQ(two.receive(), "answer");
  }
}

TEST(RsocketDatagram, OneThatIsConnectedSendsToOthersByName) {
  const Datagrams one;
  const Datagrams two;
  const Datagrams other;
  ASSERT_EQ(rconnect(one.socket(), raw(two.address()), sizeof(sockaddr_in)), 0);
  for (int i = 0; i < 3; ++i) {
    one.send(other, "to another");
    EXPECT_EQ(other.receive(), "to another");
    write_all(one.socket(), "to the peer");
    EXPECT_EQ(two.receive(), "to the peer");
  }
}

TEST(RsocketDatagram, ASocketForIpv6TalksToOneForIpv4) {
  const int six = ::rsocket(AF_INET6, SOCK_DGRAM, 0);
  ASSERT_GE(six, 0);
  const Datagrams four;
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = four.address().sin_port;
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&mapped.sin6_addr.s6_addr[12], &four.address().sin_addr, 4);
  // The first by UDP, the others from queue pair to queue pair.
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(
        rsendto(six, "there", 5, 0, reinterpret_cast<const sockaddr*>(&mapped), sizeof mapped), 5);
    ASSERT_EQ(poll_for(four.socket(), POLLIN), POLLIN);
    std::array<char, 16> text{};
    sockaddr_in from{};
    socklen_t length = sizeof from;
    EXPECT_EQ(rrecvfrom(four.socket(), text.data(), text.size(), 0, raw(from), &length), 5);
    EXPECT_EQ(from.sin_family, AF_INET);
    EXPECT_EQ(length, sizeof from);
    ASSERT_EQ(rsendto(four.socket(), "back", 4, 0, raw(from), length), 4) << std::strerror(errno);
    ASSERT_EQ(poll_for(six, POLLIN), POLLIN);
    sockaddr_in6 back{};
    length = sizeof back;
    EXPECT_EQ(
        rrecvfrom(six, text.data(), text.size(), 0, reinterpret_cast<sockaddr*>(&back), &length),
        4);
    EXPECT_EQ(std::memcmp(&back, &mapped, sizeof back), 0);
  }
  EXPECT_EQ(rclose(six), 0);
}

TEST(RsocketDatagram, WhatWasCutOffIsTold) {
  const Datagrams one;
  const Datagrams two;
  std::array<char, 4> room{};
  iovec piece{room.data(), room.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  one.send(two, "0123456789");
  ASSERT_EQ(poll_for(two.socket(), POLLIN), POLLIN);
  EXPECT_EQ(rrecvmsg(two.socket(), &message, MSG_PEEK | MSG_TRUNC), 10);
  EXPECT_EQ(message.msg_flags, MSG_TRUNC);
  EXPECT_EQ(rrecvmsg(two.socket(), &message, 0), 4);
  EXPECT_EQ(message.msg_flags, MSG_TRUNC);
  one.send(two, "0123");
  ASSERT_EQ(poll_for(two.socket(), POLLIN), POLLIN);
  EXPECT_EQ(rrecvmsg(two.socket(), &message, 0), 4);
  EXPECT_EQ(message.msg_flags, 0);
}

TEST(RsocketDatagram, MoreThanThereIsRoomForIsLost) {
  const Datagrams one;
  const Datagrams two;
  for (int i = 0; i < 3; ++i) {
    one.send(two, "hello");
    EXPECT_EQ(two.receive(), "hello");
    two.send(one, "hello");
    EXPECT_EQ(one.receive(), "hello");
  }
  for (int i = 0; i < 2000; ++i) one.send(two, std::to_string(i));
  int got = 0;
  while (poll_for(two.socket(), POLLIN, 200) != 0) {
    EXPECT_NE(two.receive(), "");
    ++got;
  }
  EXPECT_GE(got, 16);
  EXPECT_LE(got, 2000);
  one.send(two, "after it");
  EXPECT_EQ(two.receive(), "after it");
}

TEST(RsocketDatagram, MessagesThatAreNoneAreDropped) {
  const Datagrams one;
  const Datagrams two;
  const int udp = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto throw_in = [&](std::string_view text) {
    EXPECT_EQ(::sendto(udp, text.data(), text.size(), 0, raw(one.address()), sizeof(sockaddr_in)),
              static_cast<ssize_t>(text.size()));
  };
  throw_in("plain words");
  throw_in("");
  throw_in(std::string(3000, 'U'));  // 0x55 all over
  // A queue pair that is not there: what is sent to it is lost, and nothing more.
  const HeaderBytes lie = udp_header(UdpOp::kData, 0xffffff, rdmacm::Address::loopback(AF_INET, 1));
  throw_in({reinterpret_cast<const char*>(lie.bytes.data()), lie.length});
  uint16_t port = 0;
  EXPECT_EQ(one.receive(&port), "");
  sockaddr_in liar = loopback(ntohs(port));
  EXPECT_EQ(rsendto(one.socket(), "x", 1, 0, raw(liar), sizeof liar), 1);
  two.send(one, "good");
  EXPECT_EQ(one.receive(), "good");
  ::close(udp);
}

TEST(RsocketDatagram, LeaveNoDescriptors) {
  const auto exchange = [] {
    const Datagrams one;
    const Datagrams two;
    one.send(two, "x");
    EXPECT_EQ(two.receive(), "x");
  };
  exchange();  // the device is open from now on
  const size_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) exchange();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace verbena::rsocket
