// SPDX-License-Identifier: Apache-2.0
// The client's end of the side channel: one TCP connection, which never waits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace verbena::client {

class SideSocket {
 public:
  // Resolves the name, which may take a while, and begins to connect; false: it cannot. If the name
  // has several addresses, and the last one did not answer, it is the turn of the next.
  [[nodiscard]] bool connect(const std::string& host, uint16_t port);
  void close();
  // Sends what it can, and keeps the rest.
  void send(std::span<const uint8_t> bytes);
  // When all is sent: no more is received.
  void close_after_sending();

  enum class Event : uint8_t { kNothing, kConnected, kBytes, kClosed };
  // What has happened; bytes are valid until the next call. Until it says kNothing.
  [[nodiscard]] Event next();
  [[nodiscard]] std::span<const uint8_t> bytes() const { return bytes_; }

  // For epoll: -1 if there is none, and whether it waits until it can write.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool wants_to_write() const { return connecting_ || !unsent_.empty(); }
  // Why it was closed, or could not be connected; empty: the peer did.
  [[nodiscard]] const std::string& why() const { return why_; }
  // Where the server is, numeric.
  [[nodiscard]] const std::string& peer() const { return peer_; }

 private:
  [[nodiscard]] bool flush();

  UniqueFd fd_;
  bool connecting_ = false;
  bool closing_ = false;
  size_t turn_ = 0;  // of the addresses that the name has
  std::string peer_;
  std::string why_;
  std::vector<uint8_t> unsent_;
  std::vector<uint8_t> received_ = std::vector<uint8_t>(4096);
  std::span<const uint8_t> bytes_;
};

}  // namespace verbena::client
