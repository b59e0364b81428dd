// SPDX-License-Identifier: Apache-2.0
#include "fabric/several_fabrics.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/epoll.h>

#include "base/check.h"

namespace verbena::fabric {

Result<std::unique_ptr<Fabric>> SeveralFabrics::open(std::vector<std::unique_ptr<Fabric>> fabrics) {
  VERBENA_CHECK(!fabrics.empty());
  if (fabrics.size() == 1) return std::move(fabrics.front());
  std::unique_ptr<SeveralFabrics> opened(new SeveralFabrics(std::move(fabrics)));
  opened->wake_.reset(epoll_create1(EPOLL_CLOEXEC));
  for (const auto& fabric : opened->all_) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fabric->fd()}};
    if (epoll_ctl(opened->wake_.get(), EPOLL_CTL_ADD, fabric->fd(), &event) != 0) {
      return fail(fmt::format("cannot wait for several fabrics: {}", std::strerror(errno)));
    }
  }
  return opened;
}

std::string SeveralFabrics::name() const {
  std::string names;
  for (const auto& fabric : all_) names += (names.empty() ? "" : "; ") + fabric->name();
  return names;
}

std::vector<Offer> SeveralFabrics::offers() const {
  std::vector<Offer> offers;
  for (const auto& fabric : all_) std::ranges::copy(fabric->offers(), std::back_inserter(offers));
  return offers;
}

size_t SeveralFabrics::message_bytes() const {
  size_t least = all_.front()->message_bytes();
  for (const auto& fabric : all_) least = std::min(least, fabric->message_bytes());
  return least;
}

Result<Endpoint> SeveralFabrics::listen(const Endpoint& at) {
  auto first = all_.front()->listen(at);
  if (!first) return first;
  for (size_t i = 1; i < all_.size(); ++i) {
    const auto other = all_[i]->listen({at.host, 0});
    if (!other) return fail(fmt::format("{}: {}", all_[i]->name(), other.error()));
  }
  return first;
}

ConnectionId SeveralFabrics::connect(const Endpoint& to, std::span<const uint8_t> data) {
  return all_.front()->connect(to, data) * all_.size();
}

Result<Key> SeveralFabrics::add_memory(uint8_t* memory, size_t bytes, bool remote) {
  VERBENA_CHECK(!remote);
  std::vector<Key> keys;
  for (const auto& fabric : all_) {
    const auto key = fabric->add_memory(memory, bytes, false);
    if (!key) {
      for (size_t i = 0; i < keys.size(); ++i) all_[i]->remove_memory(keys[i]);
      return fail(key.error());
    }
    keys.push_back(*key);
  }
  const MutexLock lock(mutex_);
  keys_.emplace(next_key_, std::move(keys));
  return Key{.number = next_key_++};
}

void SeveralFabrics::remove_memory(const Key& key) {
  std::vector<Key> keys;
  {
    const MutexLock lock(mutex_);
    auto found = keys_.extract(key.number);
    VERBENA_CHECK(!found.empty());
    keys = std::move(found.mapped());
  }
  for (size_t i = 0; i < keys.size(); ++i) all_[i]->remove_memory(keys[i]);
}

std::span<uint8_t> SeveralFabrics::message_room(ConnectionId connection) {
  return of(connection).message_room(inner(connection));
}
void SeveralFabrics::send(ConnectionId connection, size_t bytes) {
  of(connection).send(inner(connection), bytes);
}
void SeveralFabrics::flush() {
  for (const auto& fabric : all_) fabric->flush();
}
void SeveralFabrics::read(ConnectionId connection, std::span<const Remote> from,
                          std::span<const Local> to, OperationId operation) {
  of(connection).read(inner(connection), from, to, operation);
}
void SeveralFabrics::write(ConnectionId connection, std::span<const Local> from,
                           std::span<const Remote> to, OperationId operation) {
  of(connection).write(inner(connection), from, to, operation);
}
void SeveralFabrics::write_immediate(ConnectionId connection, std::span<const uint8_t> from,
                                     const Remote& to, uint32_t immediate, OperationId operation) {
  of(connection).write_immediate(inner(connection), from, to, immediate, operation);
}
void SeveralFabrics::end(ConnectionId connection) { of(connection).end(inner(connection)); }

size_t SeveralFabrics::poll(Handler& handler) {
  above_ = &handler;
  size_t count = 0;
  for (polled_ = 0; polled_ < all_.size(); ++polled_) count += all_[polled_]->poll(*this);
  return count;
}
void SeveralFabrics::arm() {
  for (const auto& fabric : all_) fabric->arm();
}
void SeveralFabrics::woken() {
  for (const auto& fabric : all_) fabric->woken();
}

}  // namespace verbena::fabric
