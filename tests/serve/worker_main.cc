// SPDX-License-Identifier: Apache-2.0
// serve_worker HOST PORT NAME SEED [restarts]: a client process that works until it is killed or
// its input ends. One byte of output for each step; its exit status is 1 if something was wrong.
#include <cstdio>
#include <cstdlib>

#include <poll.h>
#include <unistd.h>

#include "serve/settings.h"
#include "serve/worker.h"

namespace verbena::serve {
namespace {

bool input_ended() {
  pollfd fd{STDIN_FILENO, POLLIN, 0};
  return ::poll(&fd, 1, 0) > 0;
}

int run(char** argv, bool restarts) {
  auto fabric = open_chosen_fabric();
  if (!fabric) {
    std::fprintf(stderr, "serve_worker: %s\n", fabric.error().c_str());
    return 1;
  }
  auto client = client::Client::connect({.host = argv[1],
                                         .port = static_cast<uint16_t>(std::atoi(argv[2])),
                                         .timeout = 120 * kSecond},
                                        std::move(*fabric));
  if (!client) {
    std::fprintf(stderr, "serve_worker: %s\n", client.error().what.c_str());
    return 1;
  }
  Worker worker(**client, argv[3], std::strtoull(argv[4], nullptr, 10), restarts);
  bool good = worker.begin();
  while (good && !input_ended()) {
    good = worker.step();
    if (write(STDOUT_FILENO, ".", 1) != 1) return 3;
  }
  if (restarts)
    std::fprintf(stderr, "%s: connected again %llu times\n", argv[3],
                 static_cast<unsigned long long>((*client)->reconnects()));
  return good ? 0 : 1;
}

}  // namespace
}  // namespace verbena::serve

int main(int argc, char** argv) { return argc < 5 ? 2 : verbena::serve::run(argv, argc > 5); }
