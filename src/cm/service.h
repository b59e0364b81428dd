// SPDX-License-Identifier: Apache-2.0
// The connection manager as librdmacm sees it. The device lives in libibverbs.so.1, librdmacm.so.1
// is a library of its own: this interface is all that passes between the two, by one private symbol
// whose version changes with it (verbs/connection_service.cc).
//
// Any call from any thread. The sink is called with the device's lock held, by whichever thread
// makes progress: it copies what it needs, and calls nothing here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "cm/manager.h"
#include "cm/types.h"
#include "wire/gid.h"
#include "wire/psn.h"

namespace verbena::cm {

// A port of a port space, on addresses of the host: among all its processes.
struct PortClaim {
  uint64_t service_id = 0;
  wire::AddressSet address{};
  bool shared = false;  // RDMA_OPTION_ID_REUSEADDR: others that say so may have it too
};

class Service {
 public:
  virtual ~Service() = default;

  // One for the process; nullptr takes it away. Events are for the connections of all of its users.
  virtual void set_sink(EventSink* sink) = 0;

  // 0, EADDRINUSE, ENOSPC when the host's table is full, or ETIMEDOUT when another process holds
  // its lock and does not go on.
  [[nodiscard]] virtual int claim(const PortClaim& claim) = 0;
  virtual void give_back(const PortClaim& claim) = 0;

  // As in Manager. Requests come to the process that listens; its claim is the caller's affair.
  [[nodiscard]] virtual Result<ListenerId, Error> listen(const ListenParams& params) = 0;
  virtual void unlisten(ListenerId id) = 0;
  [[nodiscard]] virtual Result<CommId, Error> connect(const ConnectParams& params) = 0;
  [[nodiscard]] virtual Result<void, Error> accept(CommId id, const AcceptParams& params) = 0;
  [[nodiscard]] virtual Result<void, Error> establish(CommId id,
                                                      std::span<const uint8_t> private_data) = 0;
  [[nodiscard]] virtual Result<void, Error> reject(CommId id, const RejectParams& params) = 0;
  [[nodiscard]] virtual Result<void, Error> disconnect(CommId id,
                                                       std::span<const uint8_t> private_data) = 0;
  [[nodiscard]] virtual Result<void, Error> data_arrived(CommId id) = 0;
  virtual Result<void, Error> set_context(CommId id, uint64_t context) = 0;
  virtual void release(CommId id) = 0;
  [[nodiscard]] virtual Result<CommId, Error> sidr_request(const SidrRequestParams& params) = 0;
  [[nodiscard]] virtual Result<void, Error> sidr_reply(CommId id,
                                                       const SidrReplyParams& params) = 0;

  // This queue pair of ours carries the connection, from the time it is ready to send: when the
  // peer is found to be gone though nothing was sent to it, the connection is lost (kDisconnected).
  virtual void watch(CommId id, Qpn qpn) = 0;

  // A first packet sequence number that nobody can guess.
  [[nodiscard]] virtual wire::Psn draw_psn() = 0;
};

}  // namespace verbena::cm
