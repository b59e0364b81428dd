// SPDX-License-Identifier: Apache-2.0
#include "link/unix_dump.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "link/clock.h"

namespace verbena::link {
namespace {

// Not in every kernel's headers.
constexpr uint32_t kShowUid = 0x40;
constexpr uint16_t kUidAttribute = 7;

// The socket that this message of unix_diag is about, if it has an abstract name.
[[nodiscard]] std::optional<NamedSocket> socket_in(const nlmsghdr* message) {
  const auto* const about = static_cast<const unix_diag_msg*>(NLMSG_DATA(message));
  auto left = static_cast<int>(message->nlmsg_len) - static_cast<int>(NLMSG_LENGTH(sizeof *about));
  NamedSocket socket;
  bool named = false;
  for (auto* item = reinterpret_cast<const rtattr*>(about + 1); RTA_OK(item, left);
       item = RTA_NEXT(item, left)) {
    const size_t bytes = RTA_PAYLOAD(item);
    if (item->rta_type == UNIX_DIAG_NAME) {
      const std::string_view bound(static_cast<const char*>(RTA_DATA(item)), bytes);
      named = bytes > 1 && bound[0] == '\0';
      if (named) socket.name = bound.substr(1);
    } else if (item->rta_type == kUidAttribute && bytes == sizeof(uid_t)) {
      std::memcpy(&socket.owner.emplace(), RTA_DATA(item), sizeof(uid_t));
    }
  }
  return named ? std::optional(socket) : std::nullopt;
}

// From one line: "Num RefCount Protocol Flags Type St Inode @name".
[[nodiscard]] std::optional<NamedSocket> socket_in(const char* line) {
  constexpr unsigned kAcceptsConnections = 0x10000;
  unsigned flags = 0;
  int name_at = 0;
  if (std::sscanf(line, "%*s %*s %*s %x %*s %*s %*s %n", &flags, &name_at) != 1 || name_at == 0 ||
      (flags & kAcceptsConnections) == 0 || line[name_at] != '@') {
    return std::nullopt;
  }
  const char* const name = line + name_at + 1;
  return NamedSocket{std::string_view(name, std::strcspn(name, "\n")), std::nullopt};
}

}  // namespace

bool visit_names(Which which, Time until, const NameVisitor& visit) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return false;
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
  ask.request.udiag_states = which == Which::kAll ? ~0u : 1u << TCP_LISTEN;
  ask.request.udiag_show = UDIAG_SHOW_NAME | kShowUid;
  if (::send(fd.get(), &ask, sizeof ask, 0) != static_cast<ssize_t>(sizeof ask)) return false;
  alignas(nlmsghdr) std::array<uint8_t, 32'768> room;
  bool answered = false;
  do {
    const ssize_t got = ::recv(fd.get(), room.data(), room.size(), 0);
    if (got <= 0) return answered;
    auto left = static_cast<unsigned>(got);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(room.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type == NLMSG_ERROR) return answered;
      answered = true;
      if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) return true;  // the end
      const auto socket = socket_in(message);
      if (socket && !visit(*socket)) return true;
    }
  } while (monotonic_now() < until);
  return true;
}

void visit_names_in_proc(Time until, const NameVisitor& visit) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/net/unix", "re"),
                                                   [](FILE* f) { return std::fclose(f); });
  if (file == nullptr) return;
  std::array<char, 256> line{};  // a name has at most 107 bytes, what is before it 60
  while (monotonic_now() < until && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    const auto socket = socket_in(line.data());
    if (socket && !visit(*socket)) return;
  }
}

}  // namespace verbena::link
