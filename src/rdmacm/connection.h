// SPDX-License-Identifier: Apache-2.0
// Connections, between the calls and the events. All give 0 or an error number.
#pragma once

#include "cm/types.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {

[[nodiscard]] int errno_of(cm::Error error);

// The addresses, the device and the path of a request, before the program sees it.
[[nodiscard]] int take_request(CmId& id);
// The peer has accepted: takes over what it said, and if the id has a queue pair makes that ready
// and tells the peer.
[[nodiscard]] int take_answer(CmId& id, cm::CommId comm, const Peer& peer);

// The path record of an id whose ends are known.
void describe_path(CmId& id);
// What an id is bound to that has this address as its source.
[[nodiscard]] wire::AddressSet bound_to(const CmId& id, const Address& source);
// A port for it, on the address that the id has as its source.
[[nodiscard]] int claim_port(CmId& id, uint16_t port);
// The port space of `id`, with this port.
[[nodiscard]] uint64_t service_id_of(const CmId& id, uint16_t port);

[[nodiscard]] int bind(CmId& id, const Address& address);
[[nodiscard]] int resolve_address(CmId& id, const std::optional<Address>& source,
                                  const Address& destination);
[[nodiscard]] int resolve_route(CmId& id);

}  // namespace verbena::rdmacm
