// SPDX-License-Identifier: Apache-2.0
// Messages that a server must refuse, each with what becomes of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/raw_client.h"

namespace verbena::serve {

struct Attack {
  std::string name;
  // By the server: the session ends, with this counted; or the request is answered with an error,
  // and the session goes on.
  std::optional<protocol::Fault> fault{};
  bool ends = true;
  // Sends it; the id of the request, if it has one. `other`: somebody else's session.
  std::function<uint64_t(RawClient& client, const RawClient& other, RandomSource& random)> send;
};

inline constexpr const char* kTooLong = "longer than the server's buffers";
[[nodiscard]] std::vector<Attack> all_attacks();

// One of them: sends it, and expects what is to become of it.
void attack(const Attack& with, RawClient& client, const RawClient& other, RandomSource& random);

}  // namespace verbena::serve
