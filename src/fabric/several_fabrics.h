// SPDX-License-Identifier: Apache-2.0
// Several fabrics as one, for a server whose clients come by any of them. Connections keep the
// fabric they came by; memory is added to all.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "fabric/fabric.h"

namespace verbena::fabric {

class SeveralFabrics final : public Fabric, private Handler {
 public:
  // At least one; the first is that of clients that do not say which they use.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> open(
      std::vector<std::unique_ptr<Fabric>> fabrics);

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::string kind() const override { return all_.front()->kind(); }
  [[nodiscard]] std::vector<Offer> offers() const override;
  [[nodiscard]] size_t message_bytes() const override;
  // The first one at the port, if one is given; others at any.
  [[nodiscard]] Result<Endpoint> listen(const Endpoint& at) override;
  // By the first one.
  using Fabric::connect;
  [[nodiscard]] ConnectionId connect(const Endpoint& to, std::span<const uint8_t> data) override;
  // Peers cannot use it: they would need a key of each fabric.
  [[nodiscard]] Result<Key> add_memory(uint8_t* memory, size_t bytes, bool remote) override;
  void remove_memory(const Key& key) override;
  [[nodiscard]] std::span<uint8_t> message_room(ConnectionId connection) override;
  void send(ConnectionId connection, size_t bytes) override;
  void flush() override;
  void read(ConnectionId connection, std::span<const Remote> from, std::span<const Local> to,
            OperationId operation) override;
  void write(ConnectionId connection, std::span<const Local> from, std::span<const Remote> to,
             OperationId operation) override;
  void write_immediate(ConnectionId connection, std::span<const uint8_t> from, const Remote& to,
                       uint32_t immediate, OperationId operation) override;
  void end(ConnectionId connection) override;
  size_t poll(Handler& handler) override;
  void arm() override;
  void woken() override;
  [[nodiscard]] int fd() const override { return wake_.get(); }

 private:
  explicit SeveralFabrics(std::vector<std::unique_ptr<Fabric>> fabrics)
      : all_(std::move(fabrics)) {}
  // A connection's id has its fabric in it.
  [[nodiscard]] ConnectionId outer(ConnectionId inner) const {
    return inner * all_.size() + polled_;
  }
  [[nodiscard]] ConnectionId inner(ConnectionId outer) const { return outer / all_.size(); }
  [[nodiscard]] Fabric& of(ConnectionId outer) const { return *all_[outer % all_.size()]; }

  std::optional<std::vector<uint8_t>> on_request(ConnectionId connection,
                                                 std::span<const uint8_t> data) override {
    return above_->on_request(outer(connection), data);
  }
  void on_accepted(ConnectionId connection, std::span<const uint8_t> data) override {
    above_->on_accepted(outer(connection), data);
  }
  void on_connected(ConnectionId connection) override { above_->on_connected(outer(connection)); }
  void on_message(ConnectionId connection, std::span<const uint8_t> message) override {
    above_->on_message(outer(connection), message);
  }
  void on_immediate(ConnectionId connection, uint32_t immediate) override {
    above_->on_immediate(outer(connection), immediate);
  }
  void on_sendable(ConnectionId connection) override { above_->on_sendable(outer(connection)); }
  void on_done(ConnectionId connection, OperationId operation, bool good) override {
    above_->on_done(outer(connection), operation, good);
  }
  void on_failed(ConnectionId connection, std::string_view why) override {
    above_->on_failed(outer(connection), why);
  }
  void on_ended(ConnectionId connection) override { above_->on_ended(outer(connection)); }

  const std::vector<std::unique_ptr<Fabric>> all_;
  UniqueFd wake_;  // an epoll of theirs
  Handler* above_ = nullptr;
  size_t polled_ = 0;  // whose poll() it is
  Mutex mutex_;        // memory is added and removed by any thread
  std::unordered_map<uint64_t, std::vector<Key>> keys_ VERBENA_GUARDED_BY(mutex_);
  uint64_t next_key_ VERBENA_GUARDED_BY(mutex_) = 1;
};

}  // namespace verbena::fabric
