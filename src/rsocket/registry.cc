// SPDX-License-Identifier: Apache-2.0
#include "rsocket/registry.h"

#include <utility>

namespace verbena::rsocket {

void Registry::add(Socket* socket) {
  const auto number = static_cast<size_t>(socket->number());
  Part& part = parts_[number % kParts];
  const MutexLock lock(part.mutex);
  const size_t place = number / kParts;
  if (place >= part.sockets.size()) part.sockets.resize(place + 1);
  part.sockets[place] = socket;
}

Held Registry::find(int number) {
  if (number < 0) return {};
  Part& part = parts_[static_cast<size_t>(number) % kParts];
  const size_t place = static_cast<size_t>(number) / kParts;
  const MutexLock lock(part.mutex);
  if (place >= part.sockets.size() || part.sockets[place] == nullptr) return {};
  part.sockets[place]->hold();
  return Held(part.sockets[place]);
}

Held Registry::remove(int number) {
  if (number < 0) return {};
  Part& part = parts_[static_cast<size_t>(number) % kParts];
  const size_t place = static_cast<size_t>(number) / kParts;
  const MutexLock lock(part.mutex);
  if (place >= part.sockets.size()) return {};
  return Held(std::exchange(part.sockets[place], nullptr));
}

std::vector<Held> Registry::all() {
  std::vector<Held> found;
  for (Part& part : parts_) {
    const MutexLock lock(part.mutex);
    for (Socket* const socket : part.sockets) {
      if (socket == nullptr) continue;
      socket->hold();
      found.emplace_back(socket);
    }
  }
  return found;
}

}  // namespace verbena::rsocket
