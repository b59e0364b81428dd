// SPDX-License-Identifier: Apache-2.0
#include "demo/report.h"

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace verbena::demo {
namespace {

constexpr uint16_t kRocePort = 4791;

[[gnu::format(printf, 2, 3)]] void say(std::string& text, const char* format, ...) {
  std::array<char, 1024> buffer{};
  va_list arguments;
  va_start(arguments, format);
  (void)std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  text += buffer.data();
}

[[nodiscard]] double megabytes_per_second(const LiveRow& row) {
  return row.rate.per_second() * row.operation->burst_bytes / 1e6;
}

// What Wireshark needs to be told to see RoCE on another port.
[[nodiscard]] std::string decode_as(uint16_t port) {
  return port == kRocePort ? "" : " -d udp.port==" + std::to_string(port) + ",rroce";
}

void say_row(std::string& text, const LiveRow& row, bool colors) {
  const Operation& operation = *row.operation;
  std::string sizes = std::to_string(operation.sizes.front());
  if (operation.sizes.size() > 1) sizes += " to " + std::to_string(operation.sizes.back());
  const bool good = row.verdict.wrong == 0;
  const char* const color = !colors ? "" : good ? "\033[32m" : "\033[31m";
  say(text, "%-23s %11s %9u  %s%-8s%s", operation.name, sizes.c_str(), operation.messages(), color,
      good ? "yes" : "NO", colors ? "\033[0m" : "");
  if (row.rate.messages != 0) {
    say(text, " %8u %11.0f %9.1f", operation.burst_bytes, row.rate.per_second(),
        megabytes_per_second(row));
  }
  text += '\n';
  if (!good) {
    say(text, "    %u wrong; the first: %s\n", row.verdict.wrong, row.verdict.first.c_str());
  }
}

}  // namespace

std::string table_of(const LiveOptions& options, const LiveResult& result, bool colors) {
  const char* const bold = colors ? "\033[1m" : "";
  const char* const plain = colors ? "\033[0m" : "";
  std::string text;
  if (!result.notice.empty()) say(text, "Note: %s\n\n", result.notice.c_str());
  say(text, "%s%-23s %11s %9s  %-8s %8s %11s %9s%s\n", bold, "operation", "bytes", "messages",
      "verified", "timed at", "messages/s", "MB/s", plain);
  for (const LiveRow& row : result.rows) say_row(text, row, colors);
  say(text, "\n%s%s%s\n", bold,
      result.good() ? "Every byte that arrived is as it was sent."
                    : "Some data is NOT as it was sent: this is a bug in Verbena.",
      plain);
  const std::string decode = decode_as(result.port);
  say(text,
      "The %llu packets of the verified part are in %s; open it with Wireshark, or:\n"
      "  tshark -r %s%s\n",
      static_cast<unsigned long long>(result.frames), options.pcap.c_str(), options.pcap.c_str(),
      decode.c_str());
  return text;
}

std::string json_of(const LiveOptions& options, const LiveResult& result) {
  nlohmann::ordered_json json{{"good", result.good()},
                              {"problem", result.problem},
                              {"notice", result.notice},
                              {"address", options.end.ipv6 ? "::1" : "127.0.0.1"},
                              {"port", result.port},
                              {"mtu", kMtuBytes},
                              {"pcap", options.pcap},
                              {"frames", result.frames},
                              {"operations", nlohmann::ordered_json::array()}};
  for (const LiveRow& row : result.rows) {
    json["operations"].push_back({{"operation", row.operation->name},
                                  {"sizes", row.operation->sizes},
                                  {"messages", row.operation->messages()},
                                  {"verified", row.verdict.wrong == 0},
                                  {"wrong", row.verdict.first},
                                  {"timed_bytes", row.operation->burst_bytes},
                                  {"timed_messages", row.rate.messages},
                                  {"timed_seconds", row.rate.seconds},
                                  {"messages_per_second", row.rate.per_second()},
                                  {"megabytes_per_second", megabytes_per_second(row)}});
  }
  // A file's name need not be UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace verbena::demo
