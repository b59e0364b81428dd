// SPDX-License-Identifier: Apache-2.0
#include "serve/raw_client.h"

#include <algorithm>
#include <array>
#include <chrono>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "serve/settings.h"

namespace verbena::serve {
namespace {

constexpr int kSilenceMs = 60'000;

}  // namespace

RawFabric::RawFabric(const fabric::VerbsOptions& options) {
  auto opened = open_chosen_fabric(options);
  EXPECT_TRUE(opened) << opened.error();
  if (opened) fabric_ = std::move(*opened);
}

bool RawFabric::until(const std::function<bool()>& so) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kSilenceMs);
  while (!so()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    if (fabric_->poll(*this) > 0) continue;
    fabric_->arm();
    if (fabric_->poll(*this) > 0 || so()) continue;
    pollfd fd{fabric_->fd(), POLLIN, 0};
    ::poll(&fd, 1, 1000);
  }
  return true;
}

fabric::ConnectionId RawFabric::connect(const std::string& host, uint16_t port) {
  return fabric_->connect({host, port});
}

bool RawFabric::send(fabric::ConnectionId connection, std::span<const uint8_t> message) {
  const auto room = fabric_->message_room(connection);
  if (room.size() < message.size() || room.empty()) return false;
  std::ranges::copy(message, room.begin());
  fabric_->send(connection, message.size());
  return true;
}

void RawFabric::end(fabric::ConnectionId connection) {
  fabric_->end(connection);
  EXPECT_TRUE(until([&] { return ended_.contains(connection); }));
  connected_.erase(connection);
  failed_.erase(connection);
  messages_.erase(connection);
  ended_.erase(connection);
}

UniqueFd connect_side(const std::string& host, uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &to.sin_addr);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fd.reset();
  return fd;
}

bool send_side(int fd, std::span<const uint8_t> bytes) {
  return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::optional<Bytes> read_frame(int fd) {
  const auto fill = [&](std::span<uint8_t> to) {
    while (!to.empty()) {
      pollfd wait{fd, POLLIN, 0};
      if (::poll(&wait, 1, kSilenceMs) <= 0) return false;
      const ssize_t got = recv(fd, to.data(), to.size(), 0);
      if (got <= 0) return false;
      to = to.subspan(static_cast<size_t>(got));
    }
    return true;
  };
  std::array<uint8_t, 2> head{};
  if (!fill(head)) return std::nullopt;
  Bytes frame(size_t{head[0]} << 8 | head[1]);
  if (!fill(frame)) return std::nullopt;
  return frame;
}

std::optional<Bytes> RawClient::prove(const Bytes& challenge) {
  transcript_.challenge = protocol::with_length(challenge);
  const protocol::Proof proof{.mac = session::client_mac(secret_, transcript_)};
  transcript_.proof = protocol::frame_of(proof);
  if (!send_side(side_.get(), transcript_.proof)) return std::nullopt;
  return read_frame(side_.get());
}

bool RawClient::open_side() {
  protocol::Hello hello;
  hello.features = secret_.empty() ? 0 : protocol::kFeatureSecret;
  for (uint8_t& byte : hello.client) byte = static_cast<uint8_t>(random_.next());
  for (uint8_t& byte : hello.nonce) byte = static_cast<uint8_t>(random_.next());
  side_ = connect_side(host_, port_);
  transcript_.hello = protocol::frame_of(hello);
  if (!side_.valid() || !send_side(side_.get(), transcript_.hello)) return false;
  auto frame = read_frame(side_.get());
  if (frame && !secret_.empty()) frame = prove(*frame);
  if (!frame) return false;
  const auto message = protocol::decode_frame(*frame);
  const auto* const welcome = message ? std::get_if<protocol::Welcome>(&*message) : nullptr;
  if (welcome == nullptr) return false;
  address_ = {.fabric = 0, .session = welcome->session};
  seal_ = secret_.empty()
              ? protocol::Seal::with_key(welcome->key)
              : protocol::Seal::with_secret(session::session_key(secret_, transcript_, *welcome));
  fabric_port_ = welcome->fabric_port;
  return true;
}

bool RawClient::open_fabric() {
  connection_ = fabric_.connect(host_, fabric_port_);
  const auto lost = [&] { return fabric_.failed(connection_); };
  if (!fabric_.until([&] { return fabric_.connected(connection_) || lost(); }) || lost()) {
    return false;
  }
  Bytes bytes(protocol::kMaxIoOverhead);
  const auto size = protocol::encode(protocol::ConnectInit{.version = protocol::kProtocolVersion},
                                     address_, seal_, bytes);
  bytes.resize(*size);
  if (!send(bytes)) return false;
  auto& got = fabric_.messages(connection_);
  if (!fabric_.until([&] { return !got.empty() || lost(); }) || got.empty()) return false;
  const auto assigned = protocol::decode<protocol::AssignId>(got.front(), seal_);
  got.clear();
  if (!assigned) return false;
  address_.fabric = assigned->fabric;
  return true;
}

bool RawClient::open() {
  close();
  id_ = 0;
  return open_side() && open_fabric();
}

void RawClient::close() {
  side_.reset();
  if (connection_ != 0) fabric_.end(connection_);
  connection_ = 0;
}

void RawClient::keep_alive() const {
  send_side(side_.get(), protocol::frame_of(protocol::SidePing{.cookie = 1}));
  // The PONGs are not wanted, and must not fill the connection.
  std::array<uint8_t, 256> ignored;
  while (recv(side_.get(), ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {}
}

Bytes RawClient::encode(const protocol::Request& request, const protocol::Address& address,
                        const protocol::Seal& seal) {
  Bytes bytes(size_t{64} * 1024);
  const auto size = protocol::encode(request, address, seal, bytes);
  EXPECT_TRUE(size) << protocol::text_of(size.error());
  bytes.resize(size ? *size : 0);
  return bytes;
}

std::optional<protocol::Status> RawClient::answer_to(uint64_t id) {
  auto& got = fabric_.messages(connection_);
  std::optional<protocol::Status> status;
  const bool done = fabric_.until([&] {
    for (const Bytes& message : got) {
      const auto response = protocol::decode_response(message, seal_);
      if (response && protocol::id_of(*response) == id) status = protocol::status_of(*response);
    }
    got.clear();
    return status || fabric_.failed(connection_);
  });
  EXPECT_TRUE(done) << "no answer";
  return status;
}

bool RawClient::take_answers(size_t count) {
  auto& got = fabric_.messages(connection_);
  const bool done =
      fabric_.until([&] { return got.size() >= count || fabric_.failed(connection_); });
  const bool all = done && got.size() == count;
  got.clear();
  return all;
}

bool RawClient::ended_by_server() {
  return fabric_.until([&] { return fabric_.failed(connection_); });
}

}  // namespace verbena::serve
