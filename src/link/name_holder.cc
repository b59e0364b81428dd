// SPDX-License-Identifier: Apache-2.0
#include "link/name_holder.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "base/unique_fd.h"
#include "link/clock.h"
#include "link/unix_names.h"

namespace verbena::link {
namespace {

// Not in every kernel's headers.
constexpr uint32_t kShowUid = 0x40;
constexpr uint16_t kUidAttribute = 7;

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

// The uid of the socket with this name, if this message of unix_diag is about it.
[[nodiscard]] std::optional<uid_t> owner_in(const nlmsghdr* message, const std::string& name) {
  const auto* const about = static_cast<const unix_diag_msg*>(NLMSG_DATA(message));
  auto left = static_cast<int>(message->nlmsg_len) - static_cast<int>(NLMSG_LENGTH(sizeof *about));
  std::optional<uid_t> owner;
  bool named = false;
  for (auto* item = reinterpret_cast<const rtattr*>(about + 1); RTA_OK(item, left);
       item = RTA_NEXT(item, left)) {
    const size_t bytes = RTA_PAYLOAD(item);
    if (item->rta_type == UNIX_DIAG_NAME) {
      const std::string_view bound(static_cast<const char*>(RTA_DATA(item)), bytes);
      named = bytes == name.size() + 1 && bound[0] == '\0' && bound.substr(1) == name;
    } else if (item->rta_type == kUidAttribute && bytes == sizeof(uid_t)) {
      std::memcpy(&owner.emplace(), RTA_DATA(item), sizeof(uid_t));
    }
  }
  return named ? owner : std::nullopt;
}

// Of a name that nobody answers at. Nothing: nobody has it, or the kernel does not tell.
[[nodiscard]] std::optional<uid_t> owner_by_diagnosis(const std::string& name) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return std::nullopt;
  struct {
    nlmsghdr head;
    unix_diag_req request;
  } ask{};
  ask.head = {.nlmsg_len = sizeof ask,
              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
              .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
              .nlmsg_seq = 1,
              .nlmsg_pid = 0};
  ask.request.sdiag_family = AF_UNIX;
  ask.request.udiag_states = ~0u;
  ask.request.udiag_show = UDIAG_SHOW_NAME | kShowUid;
  if (::send(fd.get(), &ask, sizeof ask, 0) != static_cast<ssize_t>(sizeof ask))
    return std::nullopt;
  alignas(nlmsghdr) std::array<uint8_t, 32'768> room;
  std::optional<uid_t> owner;
  for (;;) {
    const ssize_t got = ::recv(fd.get(), room.data(), room.size(), 0);
    if (got <= 0) return owner;
    auto left = static_cast<unsigned>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(room.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return owner;  // the end, or an error
      if (!owner) owner = owner_in(message, name);
    }
  }
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
