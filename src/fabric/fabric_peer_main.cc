// SPDX-License-Identifier: Apache-2.0
// fabric_peer HOST PORT [PROVIDER]: for tests. Connects, says by a message where 1 MiB of its
// memory is (a Remote, as it lies in memory), and serves that until it is killed or loses the
// connection.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/prctl.h>

#include "fabric/fabric_choice.h"

namespace verbena::fabric {
namespace {

struct Peer final : Handler {
  void on_connected(ConnectionId connection) override {
    const auto room = fabric->message_room(connection);
    std::memcpy(room.data(), &remote, sizeof remote);
    fabric->send(connection, sizeof remote);
  }
  void on_message(ConnectionId, std::span<const uint8_t>) override {}
  void on_sendable(ConnectionId) override {}
  void on_done(ConnectionId, OperationId, bool) override {}
  void on_failed(ConnectionId connection, std::string_view why) override {
    std::fprintf(stderr, "fabric_peer: %.*s\n", static_cast<int>(why.size()), why.data());
    fabric->end(connection);
  }
  void on_ended(ConnectionId) override { ended = true; }

  std::unique_ptr<Fabric> fabric;
  Remote remote;
  bool ended = false;
};

int run(const char* host, const char* port, const std::string& provider) {
  VerbsOptions options;
  options.libraries = VERBENA_LIBRARIES;
  auto opened = open_fabric(FabricChoice{provider}, options);
  if (!opened) {
    std::fprintf(stderr, "fabric_peer: %s\n", opened.error().c_str());
    return 1;
  }
  Peer peer;
  peer.fabric = std::move(*opened);
  std::vector<uint8_t> memory(1 << 20, 0x77);
  const auto key = peer.fabric->add_memory(memory.data(), memory.size(), true);
  if (!key) return 1;
  peer.remote = {key->address, key->remote, static_cast<uint32_t>(memory.size())};
  static_cast<void>(peer.fabric->connect({host, static_cast<uint16_t>(std::atoi(port))}));
  while (!peer.ended) {
    peer.fabric->arm();
    if (peer.fabric->poll(peer) > 0) continue;
    pollfd fd{peer.fabric->fd(), POLLIN, 0};
    ::poll(&fd, 1, -1);
  }
  return 0;
}

}  // namespace
}  // namespace verbena::fabric

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // not longer than the test
  return verbena::fabric::run(argv[1], argv[2], argc > 3 ? argv[3] : "");
}
