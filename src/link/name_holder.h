// SPDX-License-Identifier: Apache-2.0
// Who has an abstract unix name. Anybody can bind any name first, so whoever waits for one asks
// this before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace verbena::link {

struct PeerIdentity {
  pid_t pid = 0;  // 0: in a pid namespace we do not see
  uid_t uid = 0;
  bool same_user = false;
};
// By the credentials of a connection. `user` is who the asking process was when it joined: one that
// has given up its rights since is a member among the same others.
[[nodiscard]] PeerIdentity identify_peer(int fd, uid_t user);
// Whether somebody with this number is the user `own`. The overflow uid stands for everybody whom
// this user namespace (whose map is /proc/self/uid_map) has no number for, and so for nobody.
[[nodiscard]] bool is_same_user(uid_t uid, uid_t own, uid_t overflow, std::string_view uid_map);

struct NameHolder {
  enum class Who : uint8_t {
    kNobody,   // not any more
    kOurs,     // of this user; or it cannot be found out
    kForeign,  // of another user
  };
  Who who = Who::kNobody;
  PeerIdentity identity{};
};
[[nodiscard]] NameHolder holder_of(const std::string& name, uid_t user);
// The same, for who asks again and again: what was found in the last quarter of a second.
[[nodiscard]] NameHolder holder_of_lately(const std::string& name, uid_t user);
// For a person: "process 12 of user 34".
[[nodiscard]] std::string describe(const NameHolder& holder);

}  // namespace verbena::link
