// SPDX-License-Identifier: Apache-2.0
// A client without manners: frames and messages by hand, over TCP and the fabric.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/unique_fd.h"
#include "fabric/verbs_fabric.h"
#include "protocol/messages.h"
#include "protocol/side_channel.h"
#include "session/secret.h"

namespace verbena::serve {

using Bytes = std::vector<uint8_t>;

// The queue pairs of all raw clients of a test.
class RawFabric final : public fabric::Handler {
 public:
  explicit RawFabric(const fabric::VerbsOptions& options = {});

  // Until it is so; false: not within a minute.
  [[nodiscard]] bool until(const std::function<bool()>& so);
  [[nodiscard]] fabric::ConnectionId connect(const std::string& host, uint16_t port);
  // False: there is no room, or no connection.
  [[nodiscard]] bool send(fabric::ConnectionId connection, std::span<const uint8_t> message);
  // It is gone when this returns.
  void end(fabric::ConnectionId connection);

  [[nodiscard]] bool connected(fabric::ConnectionId id) const { return connected_.contains(id); }
  [[nodiscard]] bool failed(fabric::ConnectionId id) const { return failed_.contains(id); }
  [[nodiscard]] std::vector<Bytes>& messages(fabric::ConnectionId id) { return messages_[id]; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }

 private:
  void on_connected(fabric::ConnectionId id) override { connected_.insert(id); }
  void on_message(fabric::ConnectionId id, std::span<const uint8_t> message) override {
    messages_[id].emplace_back(message.begin(), message.end());
  }
  void on_sendable(fabric::ConnectionId /*id*/) override {}
  void on_done(fabric::ConnectionId /*id*/, fabric::OperationId /*operation*/,
               bool /*good*/) override {}
  void on_failed(fabric::ConnectionId id, std::string_view /*why*/) override { failed_.insert(id); }
  void on_ended(fabric::ConnectionId id) override { ended_.insert(id); }

  std::unique_ptr<fabric::Fabric> fabric_;
  std::set<fabric::ConnectionId> connected_;
  std::set<fabric::ConnectionId> failed_;
  std::set<fabric::ConnectionId> ended_;
  std::map<fabric::ConnectionId, std::vector<Bytes>> messages_;
};

// A TCP connection to the side channel; not valid: it could not be made.
[[nodiscard]] UniqueFd connect_side(const std::string& host, uint16_t port);
// Whether all went out.
bool send_side(int fd, std::span<const uint8_t> bytes);
// The next frame, without its length; nothing: the server has closed it, or is silent for a minute.
[[nodiscard]] std::optional<Bytes> read_frame(int fd);

class RawClient {
 public:
  RawClient(RawFabric& fabric, std::string host, uint16_t port, RandomSource& random,
            session::Secret secret = {})
      : fabric_(fabric),
        host_(std::move(host)),
        port_(port),
        random_(random),
        secret_(std::move(secret)) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  // A session, in order.
  [[nodiscard]] bool open();
  [[nodiscard]] bool open_side();    // up to WELCOME
  [[nodiscard]] bool open_fabric();  // and from there
  void close();
  // A PING on the side channel: without one the server ends the session after a while (silence).
  // By any thread.
  void keep_alive() const;

  [[nodiscard]] uint64_t next_id() { return ++id_; }
  [[nodiscard]] Bytes encode(const protocol::Request& request) const {
    return encode(request, address_, seal_);
  }
  [[nodiscard]] static Bytes encode(const protocol::Request& request,
                                    const protocol::Address& address, const protocol::Seal& seal);
  bool send(std::span<const uint8_t> message) { return fabric_.send(connection_, message); }
  // The status that the request was answered with; nothing: the server has ended the session.
  [[nodiscard]] std::optional<protocol::Status> answer_to(uint64_t id);
  // Waits for so many answers, whatever they say; false: the server has ended the session.
  [[nodiscard]] bool take_answers(size_t count);
  [[nodiscard]] bool ended_by_server();  // waits for it
  [[nodiscard]] bool is_over() const { return fabric_.failed(connection_); }

  [[nodiscard]] const protocol::Address& address() const { return address_; }
  [[nodiscard]] const protocol::Seal& seal() const { return seal_; }
  [[nodiscard]] RawFabric& fabric() { return fabric_; }
  [[nodiscard]] int side() const { return side_.get(); }
  [[nodiscard]] fabric::ConnectionId connection() const { return connection_; }
  [[nodiscard]] uint16_t fabric_port() const { return fabric_port_; }

 private:
  // With a secret: answers the CHALLENGE; the frame behind it.
  [[nodiscard]] std::optional<Bytes> prove(const Bytes& challenge);

  RawFabric& fabric_;
  std::string host_;
  uint16_t port_;
  RandomSource& random_;
  const session::Secret secret_;
  session::Transcript transcript_;
  UniqueFd side_;
  fabric::ConnectionId connection_ = 0;
  uint16_t fabric_port_ = 0;
  protocol::Address address_{};
  protocol::Seal seal_ = protocol::Seal::with_key(0);
  uint64_t id_ = 0;
};

// Keeps the session of a client, however long the test does something else.
class KeptAlive {
 public:
  explicit KeptAlive(const RawClient& client)
      : thread_([this, &client] {
          for (int i = 0; !stop_; ++i) {
            if (i % 20 == 0) client.keep_alive();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
        }) {}
  KeptAlive(const KeptAlive&) = delete;
  KeptAlive& operator=(const KeptAlive&) = delete;
  ~KeptAlive() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};  // read by the thread
  std::thread thread_;
};

}  // namespace verbena::serve
