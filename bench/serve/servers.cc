// SPDX-License-Identifier: Apache-2.0
#include "servers.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"

namespace verbena::bench {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool start_ours(Ours& ours, const std::string& programs) {
  const std::vector<std::string> words{programs + "/bin/verbena",
                                 "serve",
                                 "--memory",
                                 "8G",
                                 "--listen",
                                 fmt::format("127.0.0.1:{}", ours.port),
                                 "--quiet",
                                 "--fabric",
                                 ours.fabric};
  ours.process = std::make_unique<ServerProcess>(words);
  return ours.process->wait_for(ours.port);
}

}  // namespace

uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("bind");
    std::exit(1);
  }
  close(fd);
  return ntohs(address.sin_port);
}

ServerProcess::ServerProcess(const std::vector<std::string>& words) {
  std::fflush(stdout);  // the child would print it again
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

bool ServerProcess::wait_for(uint16_t port) const {
  siginfo_t ended{};
  for (int i = 0; i < 1000; ++i) {
    // It stays to be waited for: the number is not another process's when it is ended.
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        ended.si_pid != 0) {
      return false;
    }
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(port);
    const bool there =
        connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (there) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

double ServerProcess::cpu() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  uint64_t user = 0;
  uint64_t system = 0;
  fields >> user >> system;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Servers start_servers(const std::string& programs, const std::vector<std::string>& fabrics,
                      bool with_peers) {
  Servers servers;
  for (const std::string& fabric : fabrics) {
    Ours ours{fabric, programs + "/lib/verbena"};
    if (start_ours(ours, programs)) {
      servers.ours.push_back(std::move(ours));
    } else {
      fmt::print("{} is left out: its server does not start\n", fabric);
    }
  }
  if (servers.ours.empty()) std::exit(1);
  if (!with_peers) return servers;
  const auto start = [&](uint16_t port, const std::vector<std::string>& words) {
    servers.peers.push_back(std::make_unique<ServerProcess>(words));
    if (servers.peers.back()->wait_for(port)) return;
    fmt::print(stderr, "{0} does not start: is it installed?\n", words.front());
    std::exit(1);
  };
  start(servers.redis, {"redis-server", "--port", std::to_string(servers.redis), "--bind",
                        "127.0.0.1", "--save", "", "--appendonly", "no"});
  start(servers.memcached, {"memcached", "-l", "127.0.0.1", "-p", std::to_string(servers.memcached),
                            "-m", "8192", "-I", "4m", "-u", "nobody"});
  start(servers.nbd, {"nbdkit", "--foreground", "--ipaddr", "127.0.0.1", "--port",
                      std::to_string(servers.nbd), "memory", "1G", "allocator=malloc"});
  return servers;
}

}  // namespace verbena::bench
