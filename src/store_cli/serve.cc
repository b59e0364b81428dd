// SPDX-License-Identifier: Apache-2.0
// `verbena serve`: a store for clients on this host and others, over RDMA.
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/installation.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_name.h"
#include "store_cli/options.h"
#include "store_cli/print.h"
#include "store_cli/serve_settings.h"
#include "store_cli/server_address.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutServe =
    R"text(Serves a store to clients on this host and others, over RDMA: on the built-in device, which needs no
hardware and no rights, or on one of the system. Creates the store if there is none. `verbena put`,
`get` and others reach it with --server. Prints "ready" when clients can come. SIGTERM and Ctrl-C
end it in order: requests are finished, and everything is durable.

  verbena serve --data /srv/store
  verbena serve --data /srv/store --listen '*' --secret-file /etc/verbena/secret
  verbena serve --memory 4G --listen 127.0.0.1:0
  verbena serve --config /etc/verbena/serve.toml
)text";

constexpr const char* kServeFooter =
    R"text(Each setting is also an environment variable, as VERBENA_SERVE_MAX_SESSIONS for --max-sessions, and
a line of the TOML file, as max_sessions = 100. Options are stronger than variables, and these than
the file.

Exit status: 0 after it was stopped, 1 failure, 2 usage error, 6 in use, 9 unknown format.)text";

struct ServeOptions {
  std::map<std::string, std::string> values;
  std::map<std::string, bool> flags;
  std::map<std::string, std::vector<std::string>> lists;
  std::string config;
  std::string ready_fd;
  Speech speech;

  [[nodiscard]] Given given() const {
    Given given;
    for (const auto& [key, value] : values) {
      if (!value.empty()) given[key] = {value};
    }
    for (const auto& [key, value] : flags) {
      if (value) given[key] = {"true"};
    }
    for (const auto& [key, list] : lists) {
      if (!list.empty()) given[key] = list;
    }
    return given;
  }
};

server::Service* serving = nullptr;
void on_signal(int /*signal*/) {
  if (serving != nullptr) serving->stop();
}

// SIGTERM and its like stop it; the second time they end it.
class Signals {
 public:
  explicit Signals(server::Service& service) {
    serving = &service;
    on_interrupt(on_signal);
    signal(SIGPIPE, SIG_IGN);
  }
  ~Signals() { serving = nullptr; }
};

// -1: none was asked for; nothing: that is not one.
std::optional<int> parse_fd(const std::string& text) {
  if (text.empty()) return -1;
  int fd = -1;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, fd);
  if (error != std::errc{} || after != end || fcntl(fd, F_GETFD) < 0) return std::nullopt;
  return fd;
}

// To the service manager, if there is one (sd_notify).
void notify(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path == nullptr) return;
  const std::string_view name(path);
  if (name.empty() || name.size() >= sizeof address.sun_path) return;
  name.copy(address.sun_path, name.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  static_cast<void>(sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), length));
}

std::string text_of(const fabric::Endpoint& at) { return text_of(ServerAddress{at.host, at.port}); }

void warn_of(const ServeSettings& settings, const Report& report) {
  const auto& sessions = settings.service.server.sessions;
  if (sessions.secret.empty() && !is_loopback(settings.service.server.listen.host)) {
    report.note(
        "warning: whoever reaches this address can read and change everything; --secret-file "
        "keeps others out");
  }
  if (settings.secret_exposed) {
    report.note("warning: other users can read the secret in " + settings.secret_file);
  }
  if (!sessions.check_identity) {
    report.note("warning: messages are not checked for who sent them");
  }
}

void show_start(server::Service& service, const ServeSettings& settings,
                const ServeOptions& options, int ready_fd, Report& report) {
  const std::string where =
      settings.memory.empty()
          ? fmt::format("{}{}", settings.service.folders.front(), service.created() ? ", new" : "")
          : settings.memory + " in memory";
  const auto medium = service.store().medium_properties();
  if (options.speech.json) {
    nlohmann::ordered_json line;
    line["ready"] = true;
    line["listen"] = text_of(service.at());
    line["port"] = service.at().port;
    line["fabric"] = service.fabric_name();
    line["medium"] = medium.name;
    if (service.cache() != nullptr) line["behind"] = service.cache()->tier().describe();
    line["created"] = service.created();
    line["secret"] = !settings.service.server.sessions.secret.empty();
    print("{}\n", dump(line, -1));
  } else {
    if (!options.speech.quiet) {
      print("store   {} ({})\n", where, medium.name);
      if (service.cache() != nullptr) print("behind  {}\n", service.cache()->tier().describe());
      print("fabric  {}\n", service.fabric_name());
      print("listens {}{}\n", text_of(service.at()),
            settings.service.server.sessions.secret.empty() ? "" : ", with a secret");
    }
    print("ready {}\n", text_of(service.at()));
  }
  static_cast<void>(flush_output());  // finish_service() tells
  notify("READY=1");
  if (ready_fd >= 0) {
    const UniqueFd fd(ready_fd);
    const std::string line = fmt::format("ready {}\n", text_of(service.at()));
    if (write(fd.get(), line.data(), line.size()) < 0) {
      report.note(fmt::format("--ready-fd {}: cannot be written to", options.ready_fd));
    }
  }
}

// What it did, when it ends.
void show_end(server::Service& service, const ServeOptions& options) {
  using session::ServerCounter;
  const session::Server& sessions = service.server().sessions();
  const uint64_t failed = service.server().counter(server::Counter::kFailed);
  const uint64_t bad = sessions.counter(ServerCounter::kBadMessages);
  const uint64_t handshakes = sessions.counter(ServerCounter::kHandshakesFailed);
  const server::Upkeep::Numbers upkeep = service.upkeep().numbers();
  if (options.speech.json) {
    nlohmann::ordered_json line;
    line["ended"] = true;
    line["sessions"] = sessions.counter(ServerCounter::kSessions);
    line["requests"] = sessions.counter(ServerCounter::kRequests);
    line["failed_requests"] = failed;
    line["bad_messages"] = bad;
    line["failed_handshakes"] = handshakes;
    line["read_bytes"] = service.server().counter(server::Counter::kReadBytes);
    line["written_bytes"] = service.server().counter(server::Counter::kWrittenBytes);
    line["compactions"] = upkeep.compactions;
    line["moved_bytes"] = upkeep.moved_chunks * store::kChunkBytes;
    line["returned_bytes"] = upkeep.returned_bytes;
    print("{}\n", dump(line, -1));
  } else if (!options.speech.quiet) {
    print(
        "ended after {} sessions and {} requests; {} requests, {} messages and {} handshakes were "
        "refused\n",
        sessions.counter(ServerCounter::kSessions), sessions.counter(ServerCounter::kRequests),
        failed, bad, handshakes);
  }
}

int serve(const ServeOptions& options) {
  Report report("serve", options.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "usage", what);
    return report.finish();
  };
  Given file;
  if (!options.config.empty()) {
    auto read = read_settings_file(options.config);
    if (!read) return wrong(read.error());
    file = std::move(*read);
  }
  auto settings = combine(options.given(), settings_of_environment(), file);
  if (!settings) return wrong(settings.error());
  if (settings->service.fabric.device.empty()) {
    const auto libraries = cli::library_directory();
    if (!libraries) return wrong(libraries.error());
    settings->service.fabric.libraries = *libraries;
  }
  const auto ready_fd = parse_fd(options.ready_fd);
  if (!ready_fd)
    return wrong("--ready-fd: '" + printable(options.ready_fd) + "' is not a descriptor");
  warn_of(*settings, report);
  auto service = server::Service::start(settings->service,
                                        [&](const std::string& what) { report.note(what); });
  if (!service) {
    report.error(service.error());
    return report.finish();
  }
  {
    const Signals signals(**service);
    show_start(**service, *settings, options, *ready_fd, report);
    (*service)->run();
    notify("STOPPING=1");
  }
  show_end(**service, options);
  if (const auto closed = (*service)->close(); !closed) report.error(closed.error());
  return report.failed() ? report.finish() : report.finish_service();
}

}  // namespace

cli::Command serve_command() {
  const auto options = std::make_shared<ServeOptions>();
  cli::Command command = describe("serve", kAboutServe);
  for (const Setting& setting : serve_settings()) {
    const std::string key(setting.key);
    if (may_repeat(key)) {
      command.list((key == "data" ? "-d," : "") + option_of(setting), options->lists[key],
                   std::string(setting.value), std::string(setting.about));
    } else if (setting.value.empty()) {
      command.flag(option_of(setting), options->flags[key], std::string(setting.about));
    } else {
      command.option(option_of(setting), options->values[key], std::string(setting.value),
                     std::string(setting.about));
    }
  }
  command.option("--config", options->config, "FILE", "TOML file with settings")
      .option("--ready-fd", options->ready_fd, "FD",
              "also print the ready line there, and close it")
      .flag("--json", options->speech.json, "print one JSON document per line")
      .flag("-q,--quiet", options->speech.quiet, "print only the ready line and errors")
      .choices("--kind", {"mapped", "staged"})
      .choices("--sync", {"flush", "each"})
      .footer(kServeFooter);
  return command.action([options] { return serve(*options); });
}

}  // namespace verbena::store_cli
