// SPDX-License-Identifier: Apache-2.0
#include "link/unix_names.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "link/clock.h"
#include "link/shared_table.h"

namespace verbena::link {
namespace {

// "<group>.<uid>.<port>.<slot>.<suffix>", behind the zero of an abstract name.
constexpr size_t kSuffixDigits = 16;
static_assert(1 + GroupNames::kMaxGroupBytes + 1 + 10 + 1 + 5 + 1 + 3 + 1 + kSuffixDigits <=
              sizeof(sockaddr_un::sun_path));

struct Address {
  sockaddr_un un{};
  socklen_t bytes = 0;
};

[[nodiscard]] Address address_of(const std::string& name) {
  Address address;
  address.un.sun_family = AF_UNIX;
  VERBENA_CHECK(name.size() < sizeof address.un.sun_path);
  // sun_path[0] stays zero: abstract.
  std::memcpy(address.un.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

[[nodiscard]] UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

[[nodiscard]] Result<UniqueFd, int> bind_name(const std::string& name) {
  UniqueFd fd = make_socket();
  if (!fd.valid()) return fail(errno);
  const Address address = address_of(name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.un), address.bytes) != 0) {
    return fail(errno);
  }
  return fd;
}

// Who has the name; 0: one in a pid namespace that we do not see. Nothing: nobody, or so many have
// asked before that it does not tell.
[[nodiscard]] std::optional<pid_t> pid_of_holder(const std::string& name) {
  const auto fd = connect_to(name);
  return fd ? std::optional(identify_peer(fd->get(), ::geteuid()).pid) : std::nullopt;
}

// By a signal or a debugger, as /proc/PID/stat has it behind the name in brackets.
[[nodiscard]] bool is_stopped(pid_t pid) {
  const UniqueFd fd(
      ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  const ssize_t length = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : -1;
  if (length <= 0) return true;  // nothing is known about it
  const std::string_view stat(text.data(), static_cast<size_t>(length));
  const size_t bracket = stat.rfind(')');
  const bool known = bracket != std::string_view::npos && bracket + 2 < stat.size();
  return !known || stat[bracket + 2] == 'T' || stat[bracket + 2] == 't';
}

}  // namespace

LockPatience::LockPatience(Duration bound) : bound_(bound), deadline_(monotonic_now() + bound) {}

LockPatience::LockPatience(Duration bound, std::string name)
    : bound_(bound),
      deadline_(monotonic_now() + bound),
      name_(std::move(name)),
      bounds_left_(kMostBounds - 1) {}

std::optional<Duration> LockPatience::next_pause() {
  if (monotonic_now() >= deadline_) {
    if (bounds_left_ == 0 || !goes_on()) return std::nullopt;
    --bounds_left_;
    deadline_ = monotonic_now() + bound_;
  }
  pause_ = std::min<Duration>(pause_ * 2, 5 * kMillisecond);
  return pause_;
}

bool LockPatience::goes_on() {
  const std::optional<pid_t> holder = pid_of_holder(name_);
  const bool changed = looked_ && holder != holder_;
  looked_ = true;
  holder_ = holder;
  return changed || !holder || (*holder != 0 && !is_stopped(*holder));
}

void sleep_for(Duration span) {
  const timespec wait{static_cast<time_t>(span / kSecond), static_cast<long>(span % kSecond)};
  ::nanosleep(&wait, nullptr);
}

GroupNames::GroupNames(std::string_view group, uint16_t port)
    : user_(::geteuid()),
      prefix_(std::string(group.substr(0, kMaxGroupBytes)) + "." + std::to_string(user_) + "." +
              std::to_string(port)) {}

std::string GroupNames::member(uint8_t slot, uint64_t suffix) const {
  std::string name = prefix_ + "." + std::to_string(slot);
  if (suffix == 0) return name;
  std::array<char, 1 + kSuffixDigits + 1> digits{};
  (void)std::snprintf(digits.data(), digits.size(), ".%016llx",
                      static_cast<unsigned long long>(suffix));
  return name + digits.data();
}

std::optional<GroupNames::Form> GroupNames::form_of(std::string_view name) const {
  if (!name.starts_with(prefix_) || name.size() <= prefix_.size() + 1) return std::nullopt;
  const char* const end = name.data() + name.size();
  unsigned slot = 0;
  const auto [slot_end, slot_error] =
      std::from_chars(name.data() + prefix_.size() + 1, end, slot, 10);
  if (slot_error != std::errc() || slot < kFirstSlot || slot > kLastSlot) return std::nullopt;
  uint64_t suffix = 0;
  if (slot_end != end && std::from_chars(slot_end + 1, end, suffix, 16).ec != std::errc()) {
    return std::nullopt;
  }
  // One number can be written in several ways.
  if (name != member(static_cast<uint8_t>(slot), suffix)) return std::nullopt;
  return suffix == 0 ? Form::kPlain : Form::kSuffixed;
}

Result<UniqueFd, int> listen_on(const std::string& name, int backlog) {
  auto fd = bind_name(name);
  if (fd && ::listen(fd->get(), backlog) != 0) return fail(errno);
  return fd;
}

Result<UniqueFd, int> connect_to(const std::string& name) {
  UniqueFd fd = make_socket();
  if (!fd.valid()) return fail(errno);
  const Address address = address_of(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.un), address.bytes) != 0) {
    return fail(errno);
  }
  return fd;
}

// Whoever cannot tell (no descriptors, no memory) must not take a living member for dead.
bool name_is_taken(const std::string& name) { return !bind_name(name); }

Result<GroupLock, int> GroupLock::try_name(const std::string& name, uid_t user) {
  // As many may ask who holds it as there are members.
  constexpr int kAskers = 256;
  auto fd = listen_on(name, kAskers);
  if (fd) return GroupLock(std::move(*fd));
  if (fd.error() == EADDRINUSE) {
    const NameHolder holder = holder_of_lately(name, user);
    if (holder.who == NameHolder::Who::kForeign) return GroupLock(holder);
  }
  return fail(fd.error());
}

Result<GroupLock, int> GroupLock::take_name(const std::string& name, uid_t user, Duration bound) {
  LockPatience patience(bound, name);
  for (;;) {
    auto lock = try_name(name, user);
    if (lock || lock.error() != EADDRINUSE) return lock;
    const auto pause = patience.next_pause();
    if (!pause) return fail(ETIMEDOUT);
    sleep_for(*pause);
  }
}

Result<GroupLock, int> GroupLock::try_take(const GroupNames& names) {
  return try_name(names.lock(), names.user());
}

Result<GroupLock, int> GroupLock::take(const GroupNames& names, Duration bound) {
  return take_name(names.lock(), names.user(), bound);
}

Result<GroupLock, int> GroupLock::take_choice(const GroupNames& names, Duration bound) {
  return take_name(names.choice(), names.user(), bound);
}

std::optional<pid_t> GroupLock::holder(const GroupNames& names) {
  const std::optional<pid_t> pid = pid_of_holder(names.lock());
  return pid && *pid != 0 ? pid : std::nullopt;
}

}  // namespace verbena::link
