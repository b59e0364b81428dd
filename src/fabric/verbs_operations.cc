// SPDX-License-Identifier: Apache-2.0
// Reads and writes of the verbs fabric. Memory of many parts is used by a key of the device, if it
// has them: one entry instead of many, and CRCs that the device makes and checks. Memory of few
// parts, and all of it when no key is free, by lists of entries, and CRCs are computed here.
#include <algorithm>
#include <array>

#include <arpa/inet.h>

#include "fabric/part_crcs.h"
#include "fabric/verbs_fabric_impl.h"

namespace verbena::fabric {
namespace {

// For up to so many, configuring a key costs more than it saves (chunk_data_bench.cc).
constexpr uint32_t kPartsWithoutKey = 32;

}  // namespace

void VerbsFabric::start(bool is_read, ConnectionId id, std::span<const Local> ours,
                        std::span<const Remote> theirs, OperationId operation) {
  Connection* const connection = find(id);
  Transfer transfer(is_read, operation, ours, theirs);
  if (connection == nullptr || connection->state != Connection::State::kConnected ||
      !transfer.is_valid()) {
    notices_.add({Notice::What::kNotDone, id, operation, {}});
    return;
  }
  transfer.set_keys(next_transfer_++, [this](const Local& local) { return key_of(local); });
  connection->backlog.push_back(std::move(transfer));
  post_backlog(*connection);
}

void VerbsFabric::write_immediate(ConnectionId id, std::span<const uint8_t> from, const Remote& to,
                                  uint32_t immediate, OperationId operation) {
  Connection* const connection = find(id);
  const bool fits = connection != nullptr && connection->state == Connection::State::kConnected &&
                    connection->outstanding + 8 < options_.work_requests && may_post();
  const uint64_t number = next_transfer_++;
  ibv_sge part{};
  ibv_send_wr request{};
  request.wr_id = work_id(Work::kOperation, number);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(immediate);
  request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
  if (!from.empty()) {
    auto* const memory = const_cast<uint8_t*>(from.data());  // which is only read
    const auto bytes = static_cast<uint32_t>(from.size());
    part = {.addr = reinterpret_cast<uint64_t>(memory),
            .length = bytes,
            .lkey = key_of({.memory = memory, .bytes = bytes})};
    request.sg_list = &part;
    request.num_sge = 1;
  }
  if (fits) connection->posted.emplace(number, Connection::Posted{.operation = operation});
  if (fits && post(*connection, request)) return;
  if (fits) connection->posted.erase(number);
  notices_.add({Notice::What::kNotDone, id, operation, {}});
}

// A key, if the parts are many. It has CRCs unless the transfer is cut: a device does not continue
// a CRC from one request to the next.
std::optional<Connection::KeyUse> VerbsFabric::take_key(const Transfer& transfer, size_t index) {
  Connection::KeyUse use{nullptr, transfer.ours()[index], transfer.key(index)};
  if (part_keys_ == nullptr || use.local.count <= kPartsWithoutKey) return std::nullopt;
  if (transfer.is_scattered() || !PartKeys::makes_crcs_of(use.local.bytes)) use.local.crc_at = 0;
  if (!PartKeys::fits(use.local)) return std::nullopt;
  use.key = part_keys_->take();
  if (use.key == nullptr) return std::nullopt;
  return use;
}

bool VerbsFabric::prepare(Connection& connection, Transfer& transfer) {
  Connection::Posted posted{.operation = transfer.operation(), .is_read = transfer.is_read()};
  for (size_t i = 0; i < transfer.ours().size(); ++i) {
    const Local local = transfer.ours()[i];
    const auto use = take_key(transfer, i);
    if (use) {
      posted.keys.push_back(*use);
      transfer.use_key(i, PartKeys::lkey_of(use->key));
    }
    if (local.crc_at == 0 || (use && use->local.crc_at != 0)) continue;
    if (transfer.is_read()) {
      posted.crcs.push_back(local);
    } else if (!crcs_are_right(local)) {
      static_cast<void>(give_keys(posted));
      return false;
    }
  }
  connection.posted.emplace(transfer.number(), std::move(posted));
  return true;
}

bool VerbsFabric::post_next(Connection& connection, Transfer& transfer) {
  const uint64_t number = transfer.number();
  Connection::Posted& posted = connection.posted.find(number)->second;
  if (posted.configured < posted.keys.size()) {
    const Connection::KeyUse& use = posted.keys[posted.configured++];
    if (!part_keys_->configure(connection.qp, use.key, use.local, use.lkey,
                               work_id(Work::kPart, number))) {
      return false;
    }
    ++connection.outstanding;
    ++outstanding_;
    return true;
  }
  std::array<ibv_sge, kMaxParts> parts;
  const auto step = transfer.next(std::span(parts).first(max_parts_));
  ibv_send_wr request{};
  request.wr_id = work_id(transfer.done() ? Work::kOperation : Work::kPart, number);
  request.sg_list = parts.data();
  request.num_sge = static_cast<int>(step.parts);
  request.opcode = transfer.is_read() ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  request.wr.rdma = {.remote_addr = step.address, .rkey = step.rkey};
  return post(connection, request);
}

void VerbsFabric::post_backlog(Connection& connection) {
  // One request is left for kLast, and one for messages.
  while (!connection.backlog.empty() && connection.outstanding + 2 < options_.work_requests) {
    if (!may_post()) return wait_for_others(connection);
    Transfer& transfer = connection.backlog.front();
    if (!connection.posted.contains(transfer.number()) && !prepare(connection, transfer)) {
      notices_.add({Notice::What::kNotDone, connection.id, transfer.operation(), {}});
      connection.backlog.pop_front();
      continue;
    }
    if (!post_next(connection, transfer)) {
      // It stays in the backlog, and is not done when the connection ends.
      return fail_connection(connection, "an RDMA request cannot be posted");
    }
    if (transfer.done()) connection.backlog.pop_front();
  }
}

// Whether their CRCs were right; asked in any case, for a key remembers a wrong one until then.
bool VerbsFabric::give_keys(const Connection::Posted& posted) {
  bool right = true;
  for (const Connection::KeyUse& use : posted.keys) {
    if (use.local.crc_at != 0 && !part_keys_->crcs_were_right(use.key)) right = false;
    part_keys_->give(use.key);
  }
  return right;
}

// All its requests have completed: whether it is good.
bool VerbsFabric::finish(Connection::Posted& posted) {
  if (!give_keys(posted)) posted.good = false;
  if (posted.good) std::ranges::for_each(posted.crcs, store_crcs);
  return posted.good;
}

}  // namespace verbena::fabric
