// SPDX-License-Identifier: Apache-2.0
#include "rspreload/config.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

namespace verbena::rspreload {
namespace {

constexpr const char* kFile = "/etc/rdma/rsocket/preload_config";
constexpr int kAny = -1;

struct Rule {
  std::string program;  // how its name begins; empty: any
  int domain = kAny;
  int type = kAny;
  int protocol = kAny;
};

struct Word {
  const char* text;
  int value;
};

// A word with or without its prefix, or *. False for what is neither.
[[nodiscard]] bool read_word(const std::string& text, const std::vector<Word>& words, int& to) {
  if (text == "*") return true;
  for (const Word& word : words) {
    const size_t length = std::strlen(word.text);
    const bool ends_so = text.size() >= length &&
                         ::strcasecmp(text.c_str() + (text.size() - length), word.text) == 0;
    const bool whole = text.size() == length || text[text.size() - length - 1] == '_';
    if (!ends_so || (text.size() != length && !whole)) continue;
    to = word.value;
    return true;
  }
  return false;
}

[[nodiscard]] std::vector<Rule> read_rules() {
  std::vector<Rule> rules;
  std::ifstream file(kFile);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string program;
    std::string domain;
    std::string type;
    std::string protocol;
    if (!(words >> program >> domain >> type >> protocol)) continue;
    Rule rule{.program = program == "*" ? "" : program};
    if (read_word(domain, {{"INET", AF_INET}, {"INET6", AF_INET6}}, rule.domain) &&
        read_word(type, {{"STREAM", SOCK_STREAM}, {"DGRAM", SOCK_DGRAM}}, rule.type) &&
        read_word(protocol, {{"TCP", IPPROTO_TCP}, {"UDP", IPPROTO_UDP}}, rule.protocol)) {
      rules.push_back(rule);
    }
  }
  return rules;
}

[[nodiscard]] int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace

const Config& config() {
  static const Config kConfig{.send_places = number_in("RS_SQ_SIZE", 0),
                              .receive_places = number_in("RS_RQ_SIZE", 0),
                              .inline_bytes = number_in("RS_INLINE", -1),
                              .fork_support = number_in("RDMAV_FORK_SAFE", 0) != 0,
                              .quiet = number_in("VERBENA_QUIET", 0) != 0};
  return kConfig;
}

bool is_wanted(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6) return false;
  if (type == SOCK_STREAM) {
    if (protocol == 0) protocol = IPPROTO_TCP;
    if (protocol != IPPROTO_TCP) return false;
  } else if (type == SOCK_DGRAM) {
    if (protocol == 0) protocol = IPPROTO_UDP;
    if (protocol != IPPROTO_UDP) return false;
  } else {
    return false;
  }
  // Never destroyed: another thread may ask for a socket while the process ends.
  static const std::vector<Rule>& kRules = *new std::vector<Rule>(read_rules());
  const auto fits = [](int asked, int given) { return asked == kAny || asked == given; };
  for (const Rule& rule : kRules) {
    const bool named = ::strncasecmp(rule.program.c_str(), program_invocation_short_name,
                                     rule.program.size()) == 0;
    if (named && fits(rule.domain, domain) && fits(rule.type, type) &&
        fits(rule.protocol, protocol)) {
      return true;
    }
  }
  return kRules.empty();
}

}  // namespace verbena::rspreload
