// SPDX-License-Identifier: Apache-2.0
// What a shared secret is used for: each end proves to the other that it has it, and both derive
// the key of the session's tags (docs/protocol.md, "The shared secret"). All of it covers the
// frames that were exchanged, so that nobody in between can change what was negotiated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/side_channel.h"
#include "protocol/siphash.h"

namespace verbena::session {

// The bytes as the user has them; empty: there is none.
using Secret = std::string;

// The frames as they were sent, with their lengths.
struct Transcript {
  std::vector<uint8_t> hello;
  std::vector<uint8_t> challenge;
  std::vector<uint8_t> proof;
};

[[nodiscard]] protocol::Mac client_mac(const Secret& secret, const Transcript& transcript);
// Over the WELCOME without its own `mac`.
[[nodiscard]] protocol::Mac server_mac(const Secret& secret, const Transcript& transcript,
                                       const protocol::Welcome& welcome);
[[nodiscard]] protocol::SipKey session_key(const Secret& secret, const Transcript& transcript,
                                           const protocol::Welcome& welcome);
// In a time that does not depend on where they differ.
[[nodiscard]] bool same_mac(const protocol::Mac& one, const protocol::Mac& other);

}  // namespace verbena::session
