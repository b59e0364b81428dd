// SPDX-License-Identifier: Apache-2.0
// A fabric that spoils what goes over another one, behind all that the device checks: messages as
// they arrive, memory before and after RDMA.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fabric/fabric.h"

namespace verbena::serve {

// Called by whichever thread has the fabric, and set by the test.
template <typename... Arguments>
class FlipHook {
 public:
  FlipHook& operator=(std::function<void(Arguments...)> hook) {
    const std::scoped_lock lock(mutex_);
    hook_ = std::move(hook);
    return *this;
  }
  void operator()(Arguments... arguments) {
    const std::scoped_lock lock(mutex_);
    if (hook_) hook_(arguments...);
  }

 private:
  std::mutex mutex_;
  std::function<void(Arguments...)> hook_;
};

// What to spoil.
struct Flips {
  // May change the bytes.
  FlipHook<std::span<uint8_t>> received;
  // Before the next message is made: what it is made of is still the caller's. A client asks for
  // room whenever it looks for something to send; often there is nothing.
  FlipHook<> before_message;
  // Our own memory, after it was read into and before it is written from.
  FlipHook<std::span<const fabric::Local>> read;
  FlipHook<std::span<const fabric::Local>> written;
  // Reads that begin now are not done before their connection ends: the peer's memory is slow.
  std::atomic<bool> hold_reads{false};
  // Writes wait as long as this is set.
  std::atomic<bool> hold_writes{false};
  // How often memory was registered for peers, and the owner wanted to be woken.
  std::atomic<int> registered{0};
  std::atomic<int> armed{0};
  // There is no room for messages.
  std::atomic<bool> no_room{false};
};

class FlippingFabric final : public fabric::Fabric, private fabric::Handler {
 public:
  FlippingFabric(std::unique_ptr<fabric::Fabric> below, Flips& flips)
      : below_(std::move(below)), flips_(flips) {}

  [[nodiscard]] std::string name() const override { return below_->name(); }
  [[nodiscard]] std::string kind() const override { return below_->kind(); }
  [[nodiscard]] std::vector<fabric::Offer> offers() const override { return below_->offers(); }
  [[nodiscard]] size_t message_bytes() const override { return below_->message_bytes(); }
  [[nodiscard]] fabric::Result<fabric::Endpoint> listen(const fabric::Endpoint& at) override {
    return below_->listen(at);
  }
  [[nodiscard]] fabric::ConnectionId connect(const fabric::Endpoint& to,
                                             std::span<const uint8_t> data) override {
    return below_->connect(to, data);
  }
  void write_immediate(fabric::ConnectionId connection, std::span<const uint8_t> from,
                       const fabric::Remote& to, uint32_t immediate,
                       fabric::OperationId operation) override {
    below_->write_immediate(connection, from, to, immediate, operation);
  }
  [[nodiscard]] fabric::Result<fabric::Key> add_memory(uint8_t* memory, size_t bytes,
                                                       bool remote) override {
    if (remote) ++flips_.registered;
    return below_->add_memory(memory, bytes, remote);
  }
  void remove_memory(const fabric::Key& key) override { below_->remove_memory(key); }
  [[nodiscard]] std::span<uint8_t> message_room(fabric::ConnectionId connection) override {
    flips_.before_message();
    if (flips_.no_room) return {};
    return below_->message_room(connection);
  }
  void send(fabric::ConnectionId connection, size_t bytes) override {
    below_->send(connection, bytes);
  }
  void flush() override { below_->flush(); }
  void read(fabric::ConnectionId connection, std::span<const fabric::Remote> from,
            std::span<const fabric::Local> to, fabric::OperationId operation) override {
    if (flips_.hold_reads) {
      held_.emplace(connection, operation);
      return;
    }
    reads_[operation] = {to.begin(), to.end()};
    below_->read(connection, from, to, operation);
  }
  void write(fabric::ConnectionId connection, std::span<const fabric::Local> from,
             std::span<const fabric::Remote> to, fabric::OperationId operation) override {
    if (flips_.hold_writes) {
      held_writes_.push_back(
          {connection, operation, {from.begin(), from.end()}, {to.begin(), to.end()}});
      return;
    }
    flips_.written(from);
    below_->write(connection, from, to, operation);
  }
  void end(fabric::ConnectionId connection) override { below_->end(connection); }
  size_t poll(fabric::Handler& handler) override {
    above_ = &handler;
    if (!flips_.hold_writes) {
      for (const HeldWrite& held : std::exchange(held_writes_, {})) {
        below_->write(held.connection, held.from, held.to, held.operation);
      }
    }
    return below_->poll(*this);
  }
  void arm() override {
    ++flips_.armed;
    below_->arm();
  }
  void woken() override { below_->woken(); }
  [[nodiscard]] int fd() const override { return below_->fd(); }

 private:
  void on_connected(fabric::ConnectionId id) override { above_->on_connected(id); }
  void on_message(fabric::ConnectionId id, std::span<const uint8_t> message) override {
    std::vector<uint8_t> bytes(message.begin(), message.end());
    flips_.received(bytes);
    above_->on_message(id, bytes);
  }
  void on_sendable(fabric::ConnectionId id) override { above_->on_sendable(id); }
  void on_done(fabric::ConnectionId id, fabric::OperationId operation, bool good) override {
    const auto found = reads_.find(operation);
    if (found != reads_.end()) {
      flips_.read(found->second);
      reads_.erase(found);
    }
    above_->on_done(id, operation, good);
  }
  void on_failed(fabric::ConnectionId id, std::string_view why) override {
    above_->on_failed(id, why);
  }
  void on_ended(fabric::ConnectionId id) override {
    const auto [begin, end] = held_.equal_range(id);
    for (auto it = begin; it != end; ++it) above_->on_done(id, it->second, false);
    held_.erase(begin, end);
    std::erase_if(held_writes_, [&](const HeldWrite& held) {
      if (held.connection == id) above_->on_done(id, held.operation, false);
      return held.connection == id;
    });
    above_->on_ended(id);
  }

  struct HeldWrite {
    fabric::ConnectionId connection;
    fabric::OperationId operation;
    std::vector<fabric::Local> from;
    std::vector<fabric::Remote> to;
  };

  std::unique_ptr<fabric::Fabric> below_;
  Flips& flips_;
  std::vector<HeldWrite> held_writes_;
  fabric::Handler* above_ = nullptr;
  std::map<fabric::OperationId, std::vector<fabric::Local>> reads_;
  std::multimap<fabric::ConnectionId, fabric::OperationId> held_;
};

}  // namespace verbena::serve
