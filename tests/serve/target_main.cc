// SPDX-License-Identifier: Apache-2.0
// serve_target HOST:PORT FOLDER|- [SECRET [BUSY_POLL_US]]: a server for tests, in a process of its
// own; "-" has its store in memory. As `verbena serve`, but it answers lines on its standard input:
//
//   status   sessions=0 requests=0 ...      what clients hold, and what was refused
//   scrub    used=17 live=17 damaged=0      chunks that are in use, and those of objects
//   upkeep   compactions=1 returned=65536   what was given back to the file system
//
// It ends in order with SIGTERM, or when its input ends.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "protocol/fault.h"
#include "serve/settings.h"
#include "server/service.h"

namespace verbena::serve {
namespace {

server::Service* serving = nullptr;

// On the loop.
std::string status_of(server::Service& service) {
  const server::Server& server = service.server();
  const session::Server& sessions = server.sessions();
  std::string line =
      fmt::format("sessions={} clients={} requests={} ranges={}", sessions.sessions(),
                  sessions.clients(), server.requests(), service.store().ranges().size());
  using session::ServerCounter;
  const auto add = [&](const char* name, uint64_t value) {
    line += fmt::format(" {}={}", name, value);
  };
  add("begun", sessions.counter(ServerCounter::kSessions));
  add("resumed", sessions.counter(ServerCounter::kResumed));
  add("bad", sessions.counter(ServerCounter::kBadMessages));
  add("unknown", sessions.counter(ServerCounter::kUnknownTypes));
  add("connections", sessions.counter(ServerCounter::kConnections));
  add("evicted", sessions.counter(ServerCounter::kEvictedConnections));
  add("evicted_queue_pairs", sessions.counter(ServerCounter::kEvictedQueuePairs));
  add("handshakes_failed", sessions.counter(ServerCounter::kHandshakesFailed));
  add("admitted", sessions.counter(ServerCounter::kRequests));
  add("failed", server.counter(server::Counter::kFailed));
  add("not_accepted", server.connections_not_accepted());
  add("stalled", server.counter(server::Counter::kStalled));
  for (uint8_t i = 0; i < protocol::kFaults; ++i) {
    line += fmt::format(" fault{}={}", i, sessions.faults(static_cast<protocol::Fault>(i)));
  }
  return line;
}

std::string answer_to(const std::string& question, server::Service& service) {
  if (question == "status") {
    std::promise<std::string> told;
    service.server().run_on_loop([&] { told.set_value(status_of(service)); });
    return told.get_future().get();
  }
  if (question == "upkeep") {
    const server::Upkeep::Numbers numbers = service.upkeep().numbers();
    return fmt::format("compactions={} returned={}", numbers.compactions, numbers.returned_bytes);
  }
  const auto report = service.store().scrub();
  if (!report) return report.error().what;
  return fmt::format("used={} live={} damaged={}", service.store().space().used, report->chunks,
                     report->damaged);
}

int run(const std::string& host, uint16_t port, server::ServiceOptions options) {
  options.memory_bytes = uint64_t{256} << 20;
  options.directory.capacity_bytes = uint64_t{1} << 30;
  options.directory.chunks_per_block = 256;
  options.fabric.libraries = VERBENA_LIBRARIES;
  options.fabrics = {fabric_choice()};
  options.server.listen = {host, port};
  // Small, and often.
  options.compaction = {.percent = 20, .least_bytes = 1 << 20, .every = 20 * kMillisecond};
  auto service = server::Service::start(std::move(options), [](const std::string& what) {
    std::fprintf(stderr, "serve_target: %s\n", what.c_str());
  });
  if (!service) {
    std::fprintf(stderr, "serve_target: %s\n", service.error().what.c_str());
    return 1;
  }
  serving = service->get();
  std::signal(SIGTERM, [](int) { serving->stop(); });
  std::signal(SIGPIPE, SIG_IGN);
  std::cout << "ready " << host << ':' << (*service)->at().port << std::endl;
  std::thread loop([&] { (*service)->run(); });
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer_to(line, **service) << std::endl;
  }
  (*service)->stop();
  loop.join();
  const auto closed = (*service)->close();
  if (!closed) std::fprintf(stderr, "serve_target: %s\n", closed.error().what.c_str());
  return closed ? 0 : 1;
}

}  // namespace
}  // namespace verbena::serve

int main(int argc, char** argv) {
  const std::string at = argc >= 3 ? argv[1] : "";
  const size_t colon = at.rfind(':');
  if (colon == std::string::npos) return 2;
  verbena::server::ServiceOptions options;
  if (std::string_view(argv[2]) != "-") options.folders = {argv[2]};
  if (argc > 3) options.server.sessions.secret = argv[3];
  if (argc > 4) options.server.busy_poll = std::atoi(argv[4]) * verbena::kMicrosecond;
  return verbena::serve::run(at.substr(0, colon),
                             static_cast<uint16_t>(std::atoi(at.c_str() + colon + 1)),
                             std::move(options));
}
