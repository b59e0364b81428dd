// SPDX-License-Identifier: Apache-2.0
// A server in a process of its own: serve_target, or `verbena serve`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "client/client.h"
#include "serve/process.h"

namespace verbena::serve {

[[nodiscard]] std::unique_ptr<fabric::Fabric> device();

class Target {
 public:
  using Numbers = std::map<std::string, uint64_t>;

  // Waits until it is ready. `command`: ends with what is at HOST:PORT.
  explicit Target(const std::vector<std::string>& command);
  // serve_target on 127.0.0.1, at any port. `more`: secret, and how long it polls.
  [[nodiscard]] static Target start(const std::string& folder,
                                    const std::vector<std::string>& more = {});

  [[nodiscard]] bool ready() const { return port_ != 0; }
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] std::unique_ptr<client::Client> connect(const std::string& secret = {}) const;
  // serve_target alone.
  [[nodiscard]] Numbers ask(const std::string& question);
  // Until nobody holds anything, or a minute is over.
  [[nodiscard]] Numbers when_idle();
  // The space of the store as soon as no chunk is held for anybody (a compaction under way holds
  // what it has copied), or when a minute is over.
  [[nodiscard]] Numbers space_at_rest();
  [[nodiscard]] Process& process() { return process_; }
  // In order; its exit status.
  [[nodiscard]] int stop();

 private:
  Process process_;
  std::string host_;
  uint16_t port_ = 0;
};

}  // namespace verbena::serve
