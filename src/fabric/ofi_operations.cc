// SPDX-License-Identifier: Apache-2.0
// Reads and writes of the fabric over libfabric. CRCs of parts are made and checked here.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/endian.h"
#include "fabric/ofi_fabric_impl.h"
#include "fabric/part_crcs.h"

namespace verbena::fabric {
namespace {

constexpr size_t kMostIovecs = 16;

}  // namespace

void OfiFabric::start(bool is_read, ConnectionId id, std::span<const Local> ours,
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

bool OfiFabric::prepare(Connection& connection, Transfer& transfer) {
  Connection::Posted posted{.operation = transfer.operation()};
  for (const Local& local : transfer.ours()) {
    if (local.crc_at == 0) continue;
    if (transfer.is_read()) {
      posted.crcs.push_back(local);
    } else if (!crcs_are_right(local)) {
      return false;
    }
  }
  connection.posted.emplace(transfer.number(), std::move(posted));
  return true;
}

bool OfiFabric::post(Connection& connection, const Connection::Request& request) {
  std::array<iovec, kMostIovecs> parts;
  std::array<void*, kMostIovecs> descriptors;
  size_t length = 0;
  for (size_t i = 0; i < request.parts.size(); ++i) {
    const ibv_sge& part = request.parts[i];
    parts[i] = {reinterpret_cast<void*>(part.addr), part.length};
    descriptors[i] = descriptor_of(part.lkey);
    length += part.length;
  }
  fi_rma_iov theirs{};
  theirs.addr = request.step.address;
  theirs.len = length;
  theirs.key = request.step.rkey;
  OfiWork& work = take_work(connection, OfiWork::Kind::kOperation);
  work.transfer = request.transfer;
  fi_msg_rma message{};
  message.msg_iov = parts.data();
  message.desc = descriptors.data();
  message.iov_count = request.parts.size();
  message.addr = connection.endpoint->peer();
  message.rma_iov = &theirs;
  message.rma_iov_count = 1;
  message.context = &work.context;
  // A write is done when it is in the peer's memory: messages tell the peer so.
  const ssize_t done =
      request.is_read
          ? fi_readmsg(connection.endpoint->ep(), &message, FI_COMPLETION)
          : fi_writemsg(connection.endpoint->ep(), &message, FI_COMPLETION | FI_DELIVERY_COMPLETE);
  if (done == 0) {
    if (connection.outstanding++ == 0) connection.progress = now_;
    ++connection.posted.find(request.transfer)->second.requests;
    connection.ring = true;
    return true;
  }
  give_work(connection, work);
  if (done == -FI_EAGAIN) {
    connection.stuck = try_again_ = true;
  } else {
    fail_connection(connection, domain_->describe("memory cannot be read or written", done));
  }
  return false;
}

void OfiFabric::post_backlog(Connection& connection) {
  if (connection.refused) {
    if (!post(connection, *connection.refused)) return;
    connection.refused.reset();
    if (!connection.backlog.empty() && connection.backlog.front().done()) {
      connection.posted.find(connection.backlog.front().number())->second.all = true;
      connection.backlog.pop_front();
    }
  }
  // One request is left for messages.
  while (!connection.backlog.empty() && connection.outstanding + 2 < options_.work_requests) {
    Transfer& transfer = connection.backlog.front();
    if (!connection.posted.contains(transfer.number()) && !prepare(connection, transfer)) {
      notices_.add({Notice::What::kNotDone, connection.id, transfer.operation(), {}});
      connection.backlog.pop_front();
      continue;
    }
    Connection::Request request{.is_read = transfer.is_read(), .transfer = transfer.number()};
    request.parts.resize(max_parts_);
    request.step = transfer.next(request.parts);
    request.parts.resize(request.step.parts);
    if (!post(connection, request)) {
      connection.refused = std::move(request);
      return;
    }
    if (!transfer.done()) continue;
    connection.posted.find(transfer.number())->second.all = true;
    connection.backlog.pop_front();
  }
}

// libfabric's own immediate data needs more of a provider than others do: here a message follows
// when the data has arrived.
void OfiFabric::write_immediate(ConnectionId id, std::span<const uint8_t> from, const Remote& to,
                                uint32_t immediate, OperationId operation) {
  Connection* const connection = find(id);
  const bool fits =
      connection != nullptr && connection->state == Connection::State::kConnected &&
      connection->outstanding + connection->immediates.size() + 8 < options_.work_requests;
  if (!fits) return notices_.add({Notice::What::kNotDone, id, operation, {}});
  const uint64_t number = next_transfer_++;
  connection->immediates.push_back({number, immediate, from.empty()});
  if (from.empty()) {
    connection->posted.emplace(number, Connection::Posted{.operation = operation, .all = true});
    return send_immediates(*connection);
  }
  auto* const memory = const_cast<uint8_t*>(from.data());  // which is only read
  const auto bytes = static_cast<uint32_t>(from.size());
  const std::array<Local, 1> ours{{{.memory = memory, .bytes = bytes}}};
  const std::array<Remote, 1> theirs{{{to.address, to.rkey, bytes}}};
  Transfer transfer(false, operation, ours, theirs);
  transfer.set_keys(number, [this](const Local& local) { return key_of(local); });
  connection->backlog.push_back(std::move(transfer));
  post_backlog(*connection);
}

void OfiFabric::send_immediates(Connection& connection) {
  while (!connection.immediates.empty() && connection.immediates.front().arrived) {
    const auto index = sent_.take();
    if (!index) {
      // Those that are left are not done when the connection ends.
      return fail_connection(connection, "there is no room for a message");
    }
    const Connection::Immediate immediate = connection.immediates.front();
    connection.immediates.pop_front();
    store_be32(sent_.buffer(*index).data() + kOfiHeaderBytes, immediate.value);
    ++connection.posted.find(immediate.transfer)->second.requests;
    enqueue(connection, *index, OfiMessage::kImmediate, sizeof immediate.value, immediate.transfer);
  }
}

}  // namespace verbena::fabric
