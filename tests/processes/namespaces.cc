// SPDX-License-Identifier: Apache-2.0
#include "processes/namespaces.h"

#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::processes {
namespace {

[[nodiscard]] bool set_up(Namespace::Kind kind) {
  if (kind == Namespace::Kind::kNetwork) {
    return ::unshare(CLONE_NEWNET) == 0 && std::system("ip link set lo up") == 0;
  }
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/tmp", "tmpfs", 0, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

}  // namespace

bool is_root() { return ::geteuid() == 0; }

Namespace::Namespace(Kind kind) : kind_(kind) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return;
  const UniqueFd read_end(ready[0]);
  UniqueFd write_end(ready[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const char answer = set_up(kind) ? 'y' : 'n';
    (void)!::write(write_end.get(), &answer, 1);
    for (;;) ::pause();
  }
  write_end.reset();
  char answer = 'n';
  valid_ = pid_ > 0 && ::read(read_end.get(), &answer, 1) == 1 && answer == 'y';
}

Namespace::~Namespace() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool Namespace::enter() const {
  const bool network = kind_ == Kind::kNetwork;
  const std::string path = "/proc/" + std::to_string(pid_) + (network ? "/ns/net" : "/ns/mnt");
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd.valid() && ::setns(fd.get(), network ? CLONE_NEWNET : CLONE_NEWNS) == 0;
}

int Namespace::run(const std::string& command) const {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!enter()) ::_exit(127);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::vector<std::string> Namespace::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(
           "/proc/" + std::to_string(pid_) + "/root" + folder, error)) {
    names.push_back(item.path().filename());
  }
  if (error) names.push_back("(" + error.message() + ")");
  return names;
}

// The kernel learns a moment later that there is a carrier.
constexpr const char* kUntilUp =
    "for i in $(seq 100); do ip -6 route show table local | grep -q '^multicast ff00' && exit 0; "
    "sleep 0.05; done; exit 1";

bool join_hosts(const Namespace& first, const Namespace& second) {
  return first.run("ip link add verb0 type veth peer name verb0 netns " +
                   std::to_string(second.pid())) == 0 &&
         first.run(
             "ip addr add 10.77.0.1/24 dev verb0 && "
             "ip addr add fd77::1/64 dev verb0 nodad && ip link set verb0 up") == 0 &&
         second.run(
             "ip addr add 10.77.0.2/24 dev verb0 && "
             "ip addr add fd77::2/64 dev verb0 nodad && ip link set verb0 up") == 0 &&
         first.run(kUntilUp) == 0 && second.run(kUntilUp) == 0;
}

}  // namespace verbena::processes
