// SPDX-License-Identifier: Apache-2.0
// The servers that are measured, each in a process of its own, on loopback; they end with this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace verbena::bench {

[[nodiscard]] uint16_t free_port();

class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& words);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();
  // False: it has ended.
  [[nodiscard]] bool wait_for(uint16_t port) const;
  // Seconds of CPU that it has used.
  [[nodiscard]] double cpu() const;

 private:
  pid_t pid_ = -1;
};

// One of ours, for clients over one fabric.
struct Ours {
  std::string fabric;  // "verbs", or one of libfabric's: "ofi:shm"
  std::string libraries;
  uint16_t port = free_port();
  std::unique_ptr<ServerProcess> process{};
};

struct Servers {
  std::vector<Ours> ours;  // the first one: over verbs
  uint16_t redis = free_port();
  uint16_t memcached = free_port();
  uint16_t nbd = free_port();
  std::vector<std::unique_ptr<ServerProcess>> peers{};
};

// Starts all of them. Fabrics that this build does not have, or that do not start, are left out
// with a message; what else does not start ends the program. `programs` is the folder of this
// build's.
[[nodiscard]] Servers start_servers(const std::string& programs,
                                    const std::vector<std::string>& fabrics, bool with_peers);

}  // namespace verbena::bench
