// SPDX-License-Identifier: Apache-2.0
#include "store_cli/serve_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include "base/secret_file.h"
#include "client/remote.h"
#include "store_cli/directory_options.h"
#include "store_cli/server_address.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

using Done = Result<void, std::string>;

template <typename Number>
Done set_number(Number& to, const std::string& text, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return fail(fmt::format("'{}' is not a number from {} to {}", text, least, most));
  }
  to = static_cast<Number>(value);
  return {};
}

Done set_seconds(Duration& to, const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0 || !(seconds >= 0.001) || !(seconds <= 86400)) {
    return fail(fmt::format("'{}' is not a number of seconds from 0.001 to 86400", text));
  }
  to = static_cast<Duration>(seconds * static_cast<double>(kSecond));
  return {};
}

Done set_flag(bool& to, const std::string& text) {
  if (text == "true" || text == "yes" || text == "1") {
    to = true;
  } else if (text == "false" || text == "no" || text == "0") {
    to = false;
  } else {
    return fail(fmt::format("'{}' is neither true nor false", text));
  }
  return {};
}

// Some segments, so that one can come while another one leaves.
constexpr uint64_t kLeastCacheBytes = uint64_t{4} << 20;

constexpr auto kSettings = std::to_array<Setting>({
    {"data", "DIR", "directory of the store; may be repeated for one store in\nseveral directories",
     [](ServeSettings& s, const std::string& v) -> Done {
       s.service.folders.push_back(v);
       return {};
     }},
    {"memory", "SIZE", "no directory: a store of this size in memory, which ends\nwith the server",
     [](ServeSettings& s, const std::string& v) -> Done {
       const auto bytes = parse_size(v);
       if (!bytes) return fail(bytes.error());
       s.memory = v;
       s.service.memory_bytes = *bytes;
       return {};
     }},
    {"backend", "TIER",
     "what the store is a cache for: dir:PATH, a directory of ordinary\nfiles; "
     "rados:POOL[/NAMESPACE][?conf=FILE&user=NAME] of Ceph; or\n"
     "s3:BUCKET[/PREFIX]?endpoint=URL of an S3 service",
     [](ServeSettings& s, const std::string& v) -> Done {
       auto choice = backend::parse_tier(v);
       if (!choice) return fail(choice.error());
       s.service.tier = std::move(*choice);
       return {};
     }},
    {"cache_size", "SIZE",
     "with --backend: data that may be in the store; what is behind\nas well leaves when there is "
     "more (default: as much as fits)",
     [](ServeSettings& s, const std::string& v) -> Done {
       const auto bytes = parse_size(v);
       if (!bytes) return fail(bytes.error());
       if (*bytes < kLeastCacheBytes) return fail(fmt::format("'{}' is below 4M", v));
       s.service.cache.max_chunks = *bytes / store::kDataBytes;
       return {};
     }},
    {"flush_after", "SECONDS",
     "with --backend: how long a change may be only in the store\n(default 5)",
     [](ServeSettings& s, const std::string& v) {
       return set_seconds(s.service.cache.flush_after, v);
     }},
    {"listen", "HOST[:PORT]",
     "where clients reach it; '*' is any address\n(default 127.0.0.1:7471)",
     [](ServeSettings& s, const std::string& v) -> Done {
       auto at = parse_listen(v);
       if (!at) return fail(at.error());
       s.service.server.listen = {std::move(at->host), at->port};
       return {};
     }},
    {"secret_file", "FILE",
     "file with a secret that clients must have; others can\nneither read it nor use the server",
     [](ServeSettings& s, const std::string& v) -> Done {
       s.secret_file = v;
       return {};
     }},
    {"device", "NAME", "an RDMA device of the system instead of the built-in one",
     [](ServeSettings& s, const std::string& v) -> Done {
       s.service.fabric.device = v;
       return {};
     }},
    {"fabric", "FABRIC",
     "how clients reach it: verbs, ofi (libfabric's tcp provider) or\nofi:PROVIDER; may be "
     "repeated "
     "(default verbs)",
     [](ServeSettings& s, const std::string& v) -> Done {
       auto choice = fabric::parse_fabric(v);
       if (!choice) return fail(choice.error());
       s.service.fabrics.push_back(std::move(*choice));
       return {};
     }},
    {"kind", "HOW",
     "how files are accessed: mapped, or staged through buffers\n(default mapped, with --device "
     "staged)",
     [](ServeSettings& s, const std::string& v) -> Done {
       if (v != "mapped" && v != "staged")
         return fail(fmt::format("'{}' is not one of: mapped, staged", v));
       s.service.directory.kind = v == "staged" ? store::Kind::kStaged : store::Kind::kMapped;
       return {};
     }},
    {"capacity", "SIZE",
     "maximum size of the files of the store (default: until the\ndisk is full)",
     [](ServeSettings& s, const std::string& v) -> Done {
       const auto bytes = parse_size(v);
       if (!bytes) return fail(bytes.error());
       s.service.directory.capacity_bytes = *bytes;
       return {};
     }},
    {"sync", "WHEN",
     "when data is durable: flush, when a client asks for it; each,\nbefore each change is "
     "answered (default flush)",
     [](ServeSettings& s, const std::string& v) -> Done {
       if (v != "flush" && v != "each")
         return fail(fmt::format("'{}' is not one of: flush, each", v));
       s.service.directory.store.durability =
           v == "each" ? store::Durability::kEach : store::Durability::kFlush;
       return {};
     }},
    {"enforce_ranges", "", "refuse writes into ranges that other clients have registered",
     [](ServeSettings& s, const std::string& v) {
       return set_flag(s.service.directory.store.enforce_ranges, v);
     }},
    {"workers", "N", "threads for requests that may wait (default 2)",
     [](ServeSettings& s, const std::string& v) {
       return set_number(s.service.server.workers, v, 1, 256);
     }},
    {"max_sessions", "N", "clients at the same time (default 1024)",
     [](ServeSettings& s, const std::string& v) {
       return set_number(s.service.server.sessions.max_sessions, v, 1, 65536);
     }},
    {"window", "N", "requests of a client under way (default 128)",
     [](ServeSettings& s, const std::string& v) {
       return set_number(s.service.server.sessions.limits.window, v, 1, 1024);
     }},
    {"inline_bytes", "SIZE", "data up to this size goes with the messages (default 32768)",
     [](ServeSettings& s, const std::string& v) -> Done {
       const auto bytes = parse_size(v);
       if (!bytes) return fail(bytes.error());
       return set_number(s.service.server.sessions.limits.inline_bytes, std::to_string(*bytes),
                         4048, 61440);
     }},
    {"silence", "SECONDS", "a client that is silent for so long is gone (default 10)",
     [](ServeSettings& s, const std::string& v) -> Done {
       Duration time = 0;
       if (const auto done = set_seconds(time, v); !done) return done;
       auto& limits = s.service.server.sessions.limits;
       limits.silence_ms = static_cast<uint32_t>(time / kMillisecond);
       limits.keep_alive_ms = std::max<uint32_t>(limits.silence_ms / 5, 1);
       return {};
     }},
    {"busy_poll", "MICROSECONDS", "time to look for requests before sleeping (default 50)",
     [](ServeSettings& s, const std::string& v) -> Done {
       Duration time = 0;
       if (const auto done = set_number(time, v, 0, 1'000'000); !done) return done;
       s.service.server.busy_poll = time * kMicrosecond;
       return {};
     }},
    {"drain", "SECONDS", "time for requests to finish when it is stopped (default 5)",
     [](ServeSettings& s, const std::string& v) { return set_seconds(s.service.server.drain, v); }},
    {"compact", "PERCENT",
     "give files back to the file system in the background when so\nmuch of their size is not "
     "needed; 0: never (default 25)",
     [](ServeSettings& s, const std::string& v) {
       return set_number(s.service.compaction.percent, v, 0, 100);
     }},
    {"compact_every", "SECONDS", "how often to look whether that is so (default 60)",
     [](ServeSettings& s, const std::string& v) {
       return set_seconds(s.service.compaction.every, v);
     }},
    {"compact_least", "SIZE", "and that they are at least so much (default 64M)",
     [](ServeSettings& s, const std::string& v) -> Done {
       const auto bytes = parse_size(v);
       if (!bytes) return fail(bytes.error());
       s.service.compaction.least_bytes = *bytes;
       return {};
     }},
    {"no_identity_check", "", "do not check who sent a message: for experiments only",
     [](ServeSettings& s, const std::string& v) -> Done {
       bool off = false;
       if (const auto done = set_flag(off, v); !done) return done;
       s.service.server.sessions.check_identity = !off;
       return {};
     }},
});

std::string transformed(std::string_view key, std::string prefix, char (*each)(char)) {
  std::ranges::transform(key, std::back_inserter(prefix), each);
  return prefix;
}

Result<std::string, std::string> text_of(const toml::node& node) {
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const number = node.as_integer()) return std::to_string(number->get());
  if (const auto* const number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* const flag = node.as_boolean())
    return std::string(flag->get() ? "true" : "false");
  return fail(std::string("neither text, a number, nor true or false"));
}

}  // namespace

std::span<const Setting> serve_settings() { return kSettings; }
bool may_repeat(std::string_view key) { return key == "data" || key == "fabric"; }

std::string option_of(const Setting& setting) {
  return transformed(setting.key, "--", [](char c) { return c == '_' ? '-' : c; });
}
std::string variable_of(const Setting& setting) {
  return transformed(setting.key, "VERBENA_SERVE_",
                     [](char c) { return static_cast<char>(std::toupper(c)); });
}

Result<Given, std::string> read_settings_file(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) {
    return fail(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return fail(
        fmt::format("{}, line {}: {}", path, error.source().begin.line, error.description()));
  }
  Given given;
  for (const auto& [key, node] : table) {
    const auto wrong = [&, where = node.source().begin.line](const std::string& what) {
      return fail(fmt::format("{}, line {}: {}: {}", path, where, key.str(), what));
    };
    if (std::ranges::find(kSettings, key.str(), &Setting::key) == kSettings.end()) {
      return wrong("there is no such setting");
    }
    auto& values = given[std::string(key.str())];
    if (const auto* const list = node.as_array()) {
      for (const toml::node& each : *list) {
        auto text = text_of(each);
        if (!text) return wrong(text.error());
        values.push_back(std::move(*text));
      }
      if (!may_repeat(key.str()) && values.size() != 1) return wrong("one value is wanted");
      continue;
    }
    auto text = text_of(node);
    if (!text) return wrong(text.error());
    values.push_back(std::move(*text));
  }
  return given;
}

Given settings_of_environment() {
  Given given;
  for (const Setting& setting : kSettings) {
    const char* const value = std::getenv(variable_of(setting).c_str());
    if (value != nullptr && *value != 0) given[std::string(setting.key)] = {value};
  }
  return given;
}

Result<ServeSettings, std::string> combine(const Given& options, const Given& environment,
                                           const Given& file) {
  ServeSettings settings;
  settings.service.server.listen = {"127.0.0.1", client::kDefaultPort};
  bool kind_given = false;
  bool capacity_given = false;
  // A place for the store that is said takes the place of one that is only written down.
  const auto says_place = [](const Given& given) {
    return given.contains("data") || given.contains("memory");
  };
  for (const Setting& setting : kSettings) {
    const bool place = setting.key == "data" || setting.key == "memory";
    const Given* from = nullptr;
    std::string called;
    if (options.contains(setting.key)) {
      from = &options;
      called = option_of(setting);
    } else if (environment.contains(setting.key) && !(place && says_place(options))) {
      from = &environment;
      called = "$" + variable_of(setting);
    } else if (file.contains(setting.key) &&
               !(place && (says_place(options) || says_place(environment)))) {
      from = &file;
      called = setting.key;
    }
    if (from == nullptr) continue;
    if (setting.key == "kind") kind_given = true;
    if (setting.key == "capacity") capacity_given = true;
    for (const std::string& value : from->find(setting.key)->second) {
      if (const auto done = setting.set(settings, value); !done) {
        return fail(fmt::format("{}: {}", called, done.error()));
      }
    }
  }
  if (settings.service.folders.empty() == settings.memory.empty()) {
    return fail(std::string(settings.memory.empty()
                                ? "where is the store? give --data DIR, or --memory SIZE for one "
                                  "that ends with the server"
                                : "--data and --memory exclude each other"));
  }
  for (const Given* const given : {&options, &environment, &file}) {
    for (const char* const key : {"cache_size", "flush_after"}) {
      if (!settings.service.tier && given->contains(key)) {
        return fail(fmt::format("{} is for a store with a --backend", key));
      }
    }
  }
  if (capacity_given && !settings.service.folders.empty()) {
    const auto enough = check_capacity(settings.service.directory, settings.service.folders.size());
    if (!enough) return fail(enough.error());
  }
  if (!settings.service.fabric.device.empty() && !kind_given) {
    settings.service.directory.kind = store::Kind::kStaged;
  }
  if (!settings.secret_file.empty()) {
    auto secret = read_secret(settings.secret_file);
    if (!secret) return fail(secret.error());
    settings.service.server.sessions.secret = std::move(secret->secret);
    settings.secret_exposed = secret->exposed;
  }
  return settings;
}

}  // namespace verbena::store_cli
