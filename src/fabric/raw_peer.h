// SPDX-License-Identifier: Apache-2.0
// For tests: a peer of a fabric over libfabric that says what it likes, on its control connection
// and, if it has one, from its endpoint.
#pragma once

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "base/unique_fd.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_endpoint.h"
#include "fabric/ofi_greeting.h"
#include "fabric/ofi_library.h"
#include "fabric/resolve.h"

namespace verbena::fabric {

class RawPeer {
 public:
  RawPeer(const std::string& host, uint16_t port) {
    const auto to = resolve({host, port}, false);
    EXPECT_TRUE(to);
    fd_.reset(socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const socklen_t bytes = to->ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&*to), bytes), 0)
        << std::strerror(errno);
  }
  // Who has connected to it.
  explicit RawPeer(UniqueFd accepted) : fd_(std::move(accepted)) {}

  // --- the control connection
  void say(std::span<const uint8_t> bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  void say(const Greeting& greeting) { say(encode(greeting)); }
  // What the other end has said, if it has.
  [[nodiscard]] std::optional<Greeting> heard() {
    read();
    auto greeting = take_greeting(bytes_);
    EXPECT_TRUE(greeting) << greeting.error();
    return greeting ? std::move(*greeting) : std::nullopt;
  }
  [[nodiscard]] bool closed() {
    read();
    return closed_;
  }
  // Not by a FIN.
  void reset() {
    const linger none{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    fd_.reset();
  }

  // --- its endpoint
  void open_endpoint(const std::string& host) {
    const auto library = OfiLibrary::load(VERBENA_LIBRARIES);
    ASSERT_TRUE(library) << library.error();
    auto domain = OfiDomain::open(**library, "tcp");
    ASSERT_TRUE(domain) << domain.error();
    domain_ = std::move(*domain);
    auto endpoint = OfiEndpoint::open(*domain_, host, 64);
    ASSERT_TRUE(endpoint) << endpoint.error();
    endpoint_ = std::move(*endpoint);
  }
  // As a peer that behaves would say it.
  [[nodiscard]] Greeting greeting() const {
    return {.kind = Greeting::Kind::kConnect,
            .nonce = 1,
            .format = endpoint_->address_format(),
            .provider = domain_->provider(),
            .address = endpoint_->address()};
  }
  void on_accept(const Greeting& accepted) {
    nonce_ = accepted.nonce;
    const auto done = endpoint_->set_peer(accepted.address);
    ASSERT_TRUE(done) << done.error();
  }
  [[nodiscard]] uint64_t nonce() const { return nonce_; }
  void send(uint64_t nonce, uint8_t kind, uint32_t count, size_t body = 0) {
    Sent& message = sent_.emplace_back();
    message.bytes.resize(kOfiHeaderBytes + body);
    store_be64(message.bytes.data(), nonce);
    message.bytes[8] = kind;
    store_be32(message.bytes.data() + kOfiSequenceAt, count);
    send(message);
  }
  void send_bytes(size_t bytes) {
    Sent& message = sent_.emplace_back();
    message.bytes.resize(bytes);
    send(message);
  }
  // What its endpoint has to do; while messages are being sent.
  void go_on() {
    std::array<fi_cq_msg_entry, 8> entries;
    if (endpoint_ == nullptr) return;
    if (fi_cq_read(endpoint_->cq(), entries.data(), entries.size()) == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      static_cast<void>(fi_cq_readerr(endpoint_->cq(), &error, 0));
    }
    for (Sent& message : sent_) {
      if (!message.posted) send(message);
    }
  }

 private:
  struct Sent {
    std::vector<uint8_t> bytes{};
    fi_context2 context{};
    bool posted = false;
  };

  // In their order.
  void send(Sent& message) {
    for (Sent& earlier : sent_) {
      if (&earlier == &message) break;
      if (!earlier.posted) return;
    }
    message.posted = fi_send(endpoint_->ep(), message.bytes.data(), message.bytes.size(), nullptr,
                             endpoint_->peer(), &message.context) == 0;
  }
  void read() {
    std::array<uint8_t, 1024> bytes;
    while (fd_.valid() && !closed_) {
      const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EAGAIN) return;
      if (got > 0) bytes_.insert(bytes_.end(), bytes.begin(), bytes.begin() + got);
      closed_ = got <= 0;
    }
  }

  UniqueFd fd_;
  std::vector<uint8_t> bytes_;
  bool closed_ = false;
  std::unique_ptr<OfiDomain> domain_;
  std::deque<Sent> sent_;
  std::unique_ptr<OfiEndpoint> endpoint_;
  uint64_t nonce_ = 0;
};

}  // namespace verbena::fabric
