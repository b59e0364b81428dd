// SPDX-License-Identifier: Apache-2.0
#include "link/joining.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "link/clock.h"
#include "link/member_names.h"
#include "link/peers.h"

namespace verbena::link {
namespace {

constexpr Duration kAnswerBound = 2 * kSecond;
constexpr uint16_t kOtherPortsFrom = 10'000;
constexpr uint16_t kOtherPorts = 4;
constexpr Duration kTryProcAfter = 100 * kMillisecond;

struct Asked {
  UniqueFd fd;
  pid_t pid = 0;
};

struct Asking {
  std::vector<Asked> members;
  bool unclear = false;  // somebody has a name and takes no connections
  int refused = 0;       // errno: the system does not let us ask
};

void ask(Asking& asking, const std::string& name, uid_t user) {
  auto fd = connect_to(name);
  if (!fd) {
    const int error = fd.error();
    if (error == EAGAIN) asking.unclear = true;
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) {
      asking.refused = error;
    }
    return;
  }
  const PeerIdentity peer = identify_peer(fd->get(), user);
  if (!peer.same_user) return;  // a squatter
  (void)send_message(fd->get(), {PeerMessage::Kind::kAskTable, 0});
  asking.members.push_back({std::move(*fd), peer.pid});
}

[[nodiscard]] Asking ask_everyone(const GroupNames& names) {
  Asking asking;
  for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    ask(asking, names.member(static_cast<uint8_t>(slot)), names.user());
  }
  return asking;
}

// Those that have no plain name.
void ask_listed(Asking& asking, const GroupNames& names) {
  for (const ListedMember& member : list_members(names)) {
    if (member.has_suffix) ask(asking, member.name, names.user());
  }
}

// A stopped member does not answer, but its descriptors can be opened as long as it is ours and in
// sight.
[[nodiscard]] UniqueFd find_in_proc(const GroupNames& names, pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::string wanted = "/memfd:" + names.table() + " (deleted)";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()),
                                                    [](DIR* dir) { return ::closedir(dir); });
  if (listing == nullptr) return {};
  while (const dirent* const item = ::readdir(listing.get())) {
    const std::string path = folder + "/" + item->d_name;
    std::array<char, 256> target{};
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length <= 0 || wanted != std::string_view(target.data(), static_cast<size_t>(length)))
      continue;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd.valid()) return fd;
  }
  return {};
}

[[nodiscard]] MembershipError table_error(int code) {
  return {MembershipError::Kind::kSystem,
          std::string("memory for the shared table: ") + std::strerror(code), code};
}

[[nodiscard]] MembershipError no_answer(const Asking& asking) {
  std::string who;
  for (const Asked& member : asking.members) {
    who += member.pid != 0 ? " " + std::to_string(member.pid) : " one in another pid namespace";
  }
  return {MembershipError::Kind::kNoAnswer,
          "Verbena processes of this user do not answer (stopped? pids:" + who +
              "); continue or end them",
          ETIMEDOUT};
}

// A table; or nothing, when all that were asked died meanwhile.
[[nodiscard]] Result<std::optional<TableMapping>, MembershipError> wait_for_answer(
    const Asking& asking, const GroupNames& names) {
  std::vector<pollfd> polled;
  for (const Asked& member : asking.members) polled.push_back({member.fd.get(), POLLIN, 0});
  size_t left = polled.size();
  const Time start = monotonic_now();
  bool tried_proc = false;
  bool other_version = false;
  int no_room = 0;  // why it cannot be mapped
  const auto adopt = [&](UniqueFd fd) -> std::optional<TableMapping> {
    if (!fd.valid()) return std::nullopt;
    auto mapping = TableMapping::adopt(std::move(fd));
    if (mapping) return std::move(*mapping);
    if (mapping.error() == TableMapping::Error::kSystem) no_room = errno;
    if (mapping.error() == TableMapping::Error::kVersion) other_version = true;
    return std::nullopt;
  };
  for (Duration waited = 0; waited < kAnswerBound && !other_version && no_room == 0;
       waited = monotonic_now() - start) {
    const Duration until = tried_proc ? kAnswerBound : kTryProcAfter;
    const int wait_ms = static_cast<int>((until - waited) / kMillisecond) + 1;
    const int ready = ::poll(polled.data(), polled.size(), wait_ms);
    for (pollfd& item : polled) {
      if (ready <= 0 || item.revents == 0) continue;
      if (auto fd = receive_table(item.fd)) {
        if (auto mapping = adopt(std::move(*fd))) return std::move(*mapping);
      }
      item.fd = -1;  // gone, or no use
      --left;
    }
    if (left == 0 && !polled.empty() && !other_version && no_room == 0) return std::nullopt;
    if (ready > 0 || tried_proc) continue;
    tried_proc = true;
    for (const Asked& member : asking.members) {
      if (member.pid == 0) continue;
      if (auto mapping = adopt(find_in_proc(names, member.pid))) return std::move(*mapping);
    }
  }
  if (no_room != 0) return fail(table_error(no_room));
  if (other_version) {
    return fail(MembershipError{
        MembershipError::Kind::kVersion,
        "programs of this user run with another version of Verbena on this host; end them, or "
        "use the same version",
        0});
  }
  return fail(no_answer(asking));
}

[[nodiscard]] MembershipError system_error_of_claim(int code) {
  return {MembershipError::Kind::kSystem, std::string("UDP socket: ") + std::strerror(code), code};
}

// A port that cannot be claimed. Who claims it does not share it for a moment.
[[nodiscard]] bool may_become_ours(uint16_t port) {
  constexpr int kLooks = 3;
  for (int i = 0; i < kLooks; ++i) {
    if (can_share_port(port)) return true;
    sleep_for(kMillisecond);
  }
  return false;
}

// The users of the sockets on this port, from one of /proc/net/udp, udp6.
void add_owners(const char* path, uint16_t port, std::vector<unsigned>& uids) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "re"),
                                                   [](FILE* f) { return std::fclose(f); });
  if (file == nullptr) return;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    unsigned local = 0;
    unsigned uid = 0;
    if (std::sscanf(line.data(), " %*d: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u", &local, &uid) ==
            2 &&
        local == port) {
      uids.push_back(uid);
    }
  }
}

// Who has the port; empty when nobody is seen to.
[[nodiscard]] std::string owner_of_port(uint16_t port) {
  std::vector<unsigned> uids;
  add_owners("/proc/net/udp", port, uids);
  add_owners("/proc/net/udp6", port, uids);
  if (uids.empty()) return {};
  for (const unsigned uid : uids) {
    if (uid == ::geteuid()) continue;
    return uid == 0 ? "root, or the kernel's rdma_rxe" : "user " + std::to_string(uid);
  }
  return "another program, or the kernel's rdma_rxe";
}

}  // namespace

Result<Obtained, MembershipError> obtain_table(const GroupNames& names, uint16_t port,
                                               RandomSource& random) {
  // Those who were asked may all have died meanwhile; but not time after time.
  constexpr int kMostRounds = 100;
  int rounds = 0;
  LockPatience patience(kAnswerBound);
  // Others may have so many names that to list them takes longer than to be patient.
  constexpr int kFewestLists = 5;
  int lists = 0;
  bool hidden = false;  // somebody of ours has the port, and no plain name
  for (;;) {
    Asking asking = ask_everyone(names);
    if (hidden) {
      ask_listed(asking, names);
      ++lists;
    }
    if (asking.refused != 0) return fail(table_error(asking.refused));
    if (!asking.members.empty()) {
      if (++rounds > kMostRounds) return fail(table_error(EMFILE));  // what was handed out got lost
      auto answer = wait_for_answer(asking, names);
      if (!answer && answer.error().kind == MembershipError::Kind::kNoAnswer && !hidden) {
        Asking others;  // than those that are stopped
        ask_listed(others, names);
        if (!others.members.empty()) answer = wait_for_answer(others, names);
      }
      if (!answer) return fail(answer.error());
      if (*answer) return Obtained{std::move(**answer), {}};
      continue;
    }
    auto claim = claim_port(port);
    if (claim) {
      auto mapping = TableMapping::create(names.table().c_str(), random.next());
      if (mapping) return Obtained{std::move(*mapping), std::move(*claim)};
      return fail(table_error(errno));
    }
    if (claim.error() != EADDRINUSE) return fail(system_error_of_claim(claim.error()));
    // One of ours is about to answer, or to be gone; or it is not one of ours.
    const auto pause = patience.next_pause();
    const bool over = !pause && lists >= kFewestLists;
    if (over && asking.unclear) return fail(no_answer(asking));
    if (over || !may_become_ours(port)) return fail(port_taken(port, EADDRINUSE));
    hidden = true;
    if (pause) sleep_for(*pause);
  }
}

bool is_port_of_ours(uint16_t port) {
  const auto claim = claim_port(port);
  return !claim && claim.error() == EADDRINUSE && can_share_port(port);
}

bool has_members(const GroupNames& names, uint16_t port) {
  for (size_t slot = kFirstSlot; slot <= kLastSlot; ++slot) {
    // Not by trying to bind the name: without the group's lock that would look like a member.
    const auto fd = connect_to(names.member(static_cast<uint8_t>(slot)));
    if (fd && identify_peer(fd->get(), names.user()).same_user) return true;
  }
  if (!is_port_of_ours(port)) return false;
  for (const ListedMember& member : list_members(names)) {
    const auto fd = connect_to(member.name);
    // One that takes no connections is of ours, as it was listed, or that cannot be found out.
    if (fd ? identify_peer(fd->get(), names.user()).same_user : fd.error() == EAGAIN) return true;
  }
  return false;
}

std::string name_held_by(const std::string& name, const NameHolder& holder) {
  return "the abstract unix name @" + name + " is held by " + describe(holder) +
         ", which is not this user's; Verbena goes on without it";
}

std::vector<uint16_t> candidate_ports(uint16_t port) {
  std::vector<uint16_t> ports{port};
  for (uint16_t i = 0; i < kOtherPorts; ++i) {
    // Senders have 0xc000 and above.
    ports.push_back(static_cast<uint16_t>(1024 + (port + kOtherPortsFrom + i - 1024) % 48'000));
  }
  return ports;
}

std::string this_host_only_because(uint16_t taken, uint16_t instead) {
  const std::string who = owner_of_port(taken);
  return "UDP port " + std::to_string(taken) + " is held by " +
         (who.empty() ? "nobody now, but was taken when this user's first process started" : who) +
         ". Only processes of this user on this host can be reached, on port " +
         std::to_string(instead);
}

MembershipError port_taken(uint16_t port, int code) {
  const std::string who = owner_of_port(port);
  return {
      MembershipError::Kind::kPortTakenByOther,
      "UDP port " + std::to_string(port) + " is held by " +
          (who.empty() ? "another program, or the kernel's rdma_rxe" : who) +
          ". Processes of one user share it; another user needs another network namespace or port",
      code};
}

}  // namespace verbena::link
