// SPDX-License-Identifier: Apache-2.0
// Abstract unix sockets: names without files, scoped to the network namespace, gone with their
// owner. Each member listens on a name of its own; another name serves as the group's lock.
//
// Nobody is waited for who is of another user (name_holder.h): what is to be done is done without
// the name then. It keeps processes apart by courtesy only; what they must not do at once is
// guarded by what no other user can hold (table_lock.h, obtain_table()).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "link/name_holder.h"

namespace verbena::link {

class GroupNames {
 public:
  static constexpr size_t kMaxGroupBytes = 64;
  // "<group>.<uid>.<port>": what all names of this group begin with.
  GroupNames(std::string_view group, uint16_t port);

  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  // Whose group it is: who this process was when this was made.
  [[nodiscard]] uid_t user() const { return user_; }
  [[nodiscard]] std::string lock() const { return prefix_ + ".lock"; }
  // Held by the newcomer that looks for a port.
  [[nodiscard]] std::string choice() const { return prefix_ + ".choice"; }
  // Of the member that has this slot; with a suffix where it cannot have the plain one
  // (member_names.h).
  [[nodiscard]] std::string member(uint8_t slot, uint64_t suffix = 0) const;
  enum class Form : uint8_t { kPlain, kSuffixed };
  // Nothing: it is no name of a member of this group.
  [[nodiscard]] std::optional<Form> form_of(std::string_view name) const;
  // As memfd_create and /proc/PID/fd have it.
  [[nodiscard]] std::string table() const { return prefix_ + ".table"; }

 private:
  uid_t user_;
  std::string prefix_;
};

// All sockets here: SOCK_SEQPACKET, non-blocking, closed on exec. The error is errno.
[[nodiscard]] Result<UniqueFd, int> listen_on(const std::string& name, int backlog);
// ECONNREFUSED: nobody has the name. EAGAIN: somebody has, who does not accept (stopped).
[[nodiscard]] Result<UniqueFd, int> connect_to(const std::string& name);
// Asks nobody and wakes nobody.
[[nodiscard]] bool name_is_taken(const std::string& name);

// How long to wait before a lock is tried again: a little, then longer, until the bound is over.
class LockPatience {
 public:
  explicit LockPatience(Duration bound);
  // The bound is over only if the holder of this name was the same all the time and is stopped, or
  // out of sight: on a crowded machine the others take their time. kMostBounds of it in any case.
  static constexpr int kMostBounds = 12;
  LockPatience(Duration bound, std::string name);
  // Nothing when the bound is over.
  [[nodiscard]] std::optional<Duration> next_pause();

 private:
  [[nodiscard]] bool goes_on();

  Duration bound_;
  Time deadline_;
  Duration pause_ = 50 * kMicrosecond;
  std::string name_;
  int bounds_left_ = 0;
  bool looked_ = false;
  std::optional<pid_t> holder_;  // when looked at last
};
void sleep_for(Duration span);

// Mutual exclusion among the processes of the group: whoever has bound the name. Death releases it.
// Its holder may be waiting for an answer of any member: no member waits for it with a lock that
// its own answers need (the engine's). Where another user has bound the name, it is had without.
class GroupLock {
 public:
  // The error is errno: EADDRINUSE, somebody holds it; or what the system said (no descriptors).
  [[nodiscard]] static Result<GroupLock, int> try_take(const GroupNames& names);
  // Waits at most `bound` for one that does not go on (LockPatience): ETIMEDOUT.
  [[nodiscard]] static Result<GroupLock, int> take(const GroupNames& names, Duration bound);
  // Who has the name instead of us, if it is another user.
  [[nodiscard]] const std::optional<NameHolder>& stranger() const { return stranger_; }
  // Another lock, of names.choice(), taken before the group's.
  [[nodiscard]] static Result<GroupLock, int> take_choice(const GroupNames& names, Duration bound);
  // Who holds it just now, if that can be seen.
  [[nodiscard]] static std::optional<pid_t> holder(const GroupNames& names);

 private:
  explicit GroupLock(UniqueFd fd) : fd_(std::move(fd)) {}
  explicit GroupLock(const NameHolder& stranger) : stranger_(stranger) {}
  [[nodiscard]] static Result<GroupLock, int> try_name(const std::string& name, uid_t user);
  [[nodiscard]] static Result<GroupLock, int> take_name(const std::string& name, uid_t user,
                                                        Duration bound);
  UniqueFd fd_;
  std::optional<NameHolder> stranger_;
};

}  // namespace verbena::link
