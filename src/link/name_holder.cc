// SPDX-License-Identifier: Apache-2.0
#include "link/name_holder.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "base/unique_fd.h"
#include "link/clock.h"
#include "link/unix_dump.h"
#include "link/unix_names.h"

namespace verbena::link {
namespace {

[[nodiscard]] std::string contents(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> text{};
  const ssize_t length = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : -1;
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

[[nodiscard]] uid_t overflow_uid() {
  constexpr uid_t kUsual = 65534;
  const std::string text = contents("/proc/sys/kernel/overflowuid");
  return text.empty() ? kUsual : static_cast<uid_t>(std::strtoul(text.c_str(), nullptr, 10));
}

[[nodiscard]] bool is_ours(uid_t uid, uid_t own) {
  static const uid_t overflow = overflow_uid();
  if (uid != own) return false;
  return own != overflow || is_same_user(uid, own, overflow, contents("/proc/self/uid_map"));
}

// Of a name that nobody answers at. Nothing: nobody has it, or the kernel does not tell.
[[nodiscard]] std::optional<uid_t> owner_by_diagnosis(const std::string& name) {
  std::optional<uid_t> owner;
  (void)visit_names(Which::kAll, kNever, [&](const NamedSocket& socket) {
    if (socket.name == name) owner = socket.owner;
    return !owner;
  });
  return owner;
}

}  // namespace

bool is_same_user(uid_t uid, uid_t own, uid_t overflow, std::string_view uid_map) {
  if (uid != own) return false;
  if (uid != overflow) return true;
  // Only the map of all to themselves leaves nobody out.
  constexpr unsigned long kAll = 0xffffffff;
  unsigned long inside = 1;
  unsigned long outside = 1;
  unsigned long count = 0;
  return std::sscanf(std::string(uid_map).c_str(), "%lu %lu %lu", &inside, &outside, &count) == 3 &&
         inside == 0 && outside == 0 && count == kAll;
}

PeerIdentity identify_peer(int fd, uid_t user) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return {};
  return {credentials.pid, credentials.uid, is_ours(credentials.uid, user)};
}

NameHolder holder_of(const std::string& name, uid_t user) {
  using Who = NameHolder::Who;
  const auto fd = connect_to(name);
  if (fd) {
    const PeerIdentity identity = identify_peer(fd->get(), user);
    return {identity.same_user ? Who::kOurs : Who::kForeign, identity};
  }
  if (fd.error() != EAGAIN && fd.error() != ECONNREFUSED) return {Who::kOurs, {}};
  // It takes no connections: one of ours that is stopped, or about to listen, or not one of ours.
  const auto owner = owner_by_diagnosis(name);
  if (!owner) return {name_is_taken(name) ? Who::kOurs : Who::kNobody, {}};
  const bool ours = is_ours(*owner, user);
  return {ours ? Who::kOurs : Who::kForeign, {.pid = 0, .uid = *owner, .same_user = ours}};
}

NameHolder holder_of_lately(const std::string& name, uid_t user) {
  constexpr Duration kEvery = 250 * kMillisecond;
  struct Last {
    std::string name;
    uid_t user = 0;
    NameHolder holder;
    Time at = 0;
  };
  thread_local Last last;
  const Time now = monotonic_now();
  if (last.at == 0 || now - last.at >= kEvery || last.name != name || last.user != user) {
    last = {name, user, holder_of(name, user), now};
  }
  return last.holder;
}

std::string describe(const NameHolder& holder) {
  return (holder.identity.pid != 0 ? "process " + std::to_string(holder.identity.pid)
                                   : std::string("a process")) +
         " of user " + std::to_string(holder.identity.uid);
}

}  // namespace verbena::link
