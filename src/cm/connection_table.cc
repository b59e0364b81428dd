// SPDX-License-Identifier: Apache-2.0
#include "cm/connection_table.h"

#include "base/check.h"

namespace verbena::cm {
namespace {

// QP0 and QP1 are nobody's: programs without a queue pair say 0, and any number of them may.
constexpr uint32_t kLastSpecialQpn = 1;

}  // namespace

template <typename F>
void ConnectionTable::for_each_key(const Connection& c, F&& visit) {
  if (c.remote_id != 0) {
    const Space space = c.is_sidr() ? Space::kSidrRequest : Space::kCommId;
    visit(RemoteKey{c.destination, c.remote_id, space});
  }
  if (c.remote_qpn.value > kLastSpecialQpn) {
    visit(RemoteKey{c.destination, c.remote_qpn.value, Space::kQpn});
  }
}

Connection& ConnectionTable::add() {
  VERBENA_CHECK(!full());
  for (;;) {
    const CommId id = ids_.next();
    const auto [at, added] = by_id_.try_emplace(id.value);
    if (!added) continue;
    at->second = std::make_unique<Connection>();
    at->second->id = id;
    return *at->second;
  }
}

Connection* ConnectionTable::find(uint32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

Connection* ConnectionTable::find_remote(Space space, const wire::Gid& peer,
                                         uint32_t number) const {
  const auto found = remote_.find(RemoteKey{peer, number, space});
  return found == remote_.end() ? nullptr : found->second;
}

void ConnectionTable::index_remote(Connection& connection) {
  for_each_key(connection, [&](const RemoteKey& key) { remote_.try_emplace(key, &connection); });
}

void ConnectionTable::drop(const RemoteKey& key, const Connection& connection) {
  const auto found = remote_.find(key);
  if (found != remote_.end() && found->second == &connection) remote_.erase(found);
}

void ConnectionTable::forget_qpn(Connection& connection) {
  drop({connection.destination, connection.remote_qpn.value, Space::kQpn}, connection);
  connection.remote_qpn = Qpn(0);
}

void ConnectionTable::erase(Connection& connection) {
  for_each_key(connection, [&](const RemoteKey& key) { drop(key, connection); });
  const uint32_t id = connection.id.value;
  VERBENA_CHECK(by_id_.erase(id) == 1);
}

}  // namespace verbena::cm
