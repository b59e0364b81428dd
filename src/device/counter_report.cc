// SPDX-License-Identifier: Apache-2.0
#include "device/counter_report.h"

#include <cstdint>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/blocked_signals.h"
#include "base/unique_fd.h"
#include "device/engine.h"

namespace verbena::device {
namespace {

// Names come from the outside.
[[nodiscard]] std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return out + '"';
}

class Object {
 public:
  void add(std::string_view name, uint64_t value) { put(name, std::to_string(value)); }
  void put(std::string_view name, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + quoted(name) + ": " + value;
  }
  [[nodiscard]] std::string text() const { return '{' + text_ + '}'; }

 private:
  std::string text_;
};

[[nodiscard]] std::string program_name() {
  std::string name;
  std::getline(std::ifstream("/proc/self/comm"), name);
  return name;
}

}  // namespace

std::string counter_line(const Engine& engine) {
  Object all;
  all.add("pid", static_cast<uint64_t>(::getpid()));
  all.put("program", quoted(program_name()));
  const link::TransmitCounters& out = engine.link().transmit_counters();
  Object sent;
  sent.add("packets", out.packets);
  sent.add("bytes", out.bytes);
  sent.add("system calls", out.syscalls);
  sent.add("errors", out.errors);
  all.put("sent", sent.text());
  const link::ReceiveCounters& in = engine.link().receive_counters();
  Object received;
  received.add("packets", in.packets);
  received.add("bytes", in.bytes);
  received.add("system calls", in.syscalls);
  received.add("overflow", in.overflow);
  received.add("wrong tags", engine.link().intake_counters().bad_tag);
  received.add("tags without a secret", engine.link().intake_counters().tagged);
  received.add("not from a member", engine.link().intake_counters().not_a_member);
  all.put("received", received.text());
  Object transport;
  const transport::Counters& events = engine.transport_counters();
  for (size_t i = 0; i < transport::kCounters; ++i) {
    if (events.at(i) != 0) transport.add(transport::kCounterText[i], events.at(i));
  }
  all.put("transport", transport.text());
  Object manager;
  for (size_t i = 0; i < cm::kCounters; ++i) {
    const uint64_t value = engine.manager_counters().at(i);
    if (value != 0) manager.add(cm::kCounterText[i], value);
  }
  all.put("connection manager", manager.text());
  return all.text() + '\n';
}

void append_line(const std::string& path, const std::string& line) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const BlockedSignals blocked{SIGXFSZ, SIGPIPE};
  if (file.valid()) (void)!::write(file.get(), line.data(), line.size());
}

}  // namespace verbena::device
