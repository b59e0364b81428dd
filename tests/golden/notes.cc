// SPDX-License-Identifier: Apache-2.0
#include "golden/notes.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

namespace verbena::golden {
namespace {

// "> op 0x07 #1 drop"
std::optional<Fault> parse_fault(const std::string& text) {
  std::istringstream in(text);
  std::string direction;
  std::string op;
  std::string opcode;
  std::string nth;
  std::string action;
  if (!(in >> direction >> op >> opcode >> nth >> action) || op != "op" || nth[0] != '#') return {};
  Fault fault;
  fault.to_responder = direction == ">";
  fault.opcode = static_cast<uint8_t>(std::strtoul(opcode.c_str(), nullptr, 16));
  fault.nth = std::strtoul(nth.c_str() + 1, nullptr, 10);
  if (action == "drop") {
    fault.kind = Fault::Kind::kDrop;
  } else if (action == "dup") {
    fault.kind = Fault::Kind::kDuplicate;
  } else if (action == "corrupt") {
    fault.kind = Fault::Kind::kCorrupt;
  } else if (action.starts_with("delay=")) {
    fault.kind = Fault::Kind::kDelay;
    fault.delay = static_cast<Duration>(std::strtod(action.c_str() + 6, nullptr) * 1e9);
  } else {
    return {};
  }
  return fault;
}

// The number after "name": in an object of the agent's JSON.
std::optional<uint32_t> number(std::string_view object, std::string_view name) {
  const std::string key = "\"" + std::string(name) + "\": ";
  const size_t at = object.find(key);
  if (at == std::string_view::npos) return {};
  const std::string digits(object.substr(at + key.size(), 20));
  return static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 10));
}

// {"b": {"wc": [{...}, {...}]}}
void parse_completions(std::string_view line, Notes& notes) {
  constexpr std::string_view kStart = "\"b\": {\"wc\": [";
  const size_t start = line.find(kStart);
  if (start == std::string_view::npos) return;
  std::string_view rest = line.substr(start + kStart.size());
  rest = rest.substr(0, rest.find(']'));
  if (!notes.responder_completions) notes.responder_completions.emplace();
  while (true) {
    const size_t open = rest.find('{');
    const size_t close = rest.find('}');
    if (open == std::string_view::npos || close == std::string_view::npos) return;
    const std::string_view object = rest.substr(open, close - open);
    notes.responder_completions->push_back(
        {number(object, "status").value_or(~0u), number(object, "op").value_or(~0u),
         number(object, "len").value_or(~0u), number(object, "imm").value_or(0)});
    rest = rest.substr(close + 1);
  }
}

// "b_mem": {"hex": "0011..."}
void parse_memory(std::string_view line, Notes& notes) {
  constexpr std::string_view kStart = "\"b_mem\": {\"hex\": \"";
  const size_t start = line.find(kStart);
  if (start == std::string_view::npos) return;
  std::string_view rest = line.substr(start + kStart.size());
  rest = rest.substr(0, rest.find('"'));
  notes.responder_memory.clear();
  for (size_t i = 0; i + 1 < rest.size(); i += 2) {
    const std::string digits(rest.substr(i, 2));
    notes.responder_memory.push_back(
        static_cast<uint8_t>(std::strtoul(digits.c_str(), nullptr, 16)));
  }
}

}  // namespace

Notes read_notes(const std::filesystem::path& path) {
  Notes notes;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kRelay = "relay: ";
    if (line.starts_with(kRelay)) {
      if (const auto fault = parse_fault(line.substr(kRelay.size())))
        notes.faults.push_back(*fault);
      continue;
    }
    parse_completions(line, notes);
    parse_memory(line, notes);
    const size_t state = line.find("\"b_state\": {");
    if (state != std::string::npos)
      notes.responder_state = number(line.substr(state + 11), "state");
  }
  return notes;
}

}  // namespace verbena::golden
