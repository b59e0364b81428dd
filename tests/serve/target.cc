// SPDX-License-Identifier: Apache-2.0
#include "serve/target.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "serve/settings.h"

namespace verbena::serve {

std::unique_ptr<fabric::Fabric> device() {
  auto fabric = open_chosen_fabric();
  EXPECT_TRUE(fabric) << fabric.error();
  return fabric ? std::move(*fabric) : nullptr;
}

Target::Target(const std::vector<std::string>& command) : process_(command) {
  constexpr std::string_view kReady = "ready ";
  while (const auto line = process_.line()) {
    const size_t colon = line->rfind(':');
    if (!line->starts_with(kReady) || colon == std::string::npos) continue;
    host_ = line->substr(kReady.size(), colon - kReady.size());
    if (host_.starts_with('[')) host_ = host_.substr(1, host_.size() - 2);
    port_ = static_cast<uint16_t>(std::atoi(line->c_str() + colon + 1));
    return;
  }
  ADD_FAILURE() << command[0] << " did not become ready";
}

Target Target::start(const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> command{VERBENA_SERVE_TARGET, "127.0.0.1:0", folder};
  command.insert(command.end(), more.begin(), more.end());
  return Target(command);
}

std::unique_ptr<client::Client> Target::connect(const std::string& secret) const {
  auto client = client::Client::connect(
      {.host = host_, .port = port_, .secret = secret, .timeout = 120 * kSecond}, device());
  EXPECT_TRUE(client) << client.error().what;
  return client ? std::move(*client) : nullptr;
}

Target::Numbers Target::ask(const std::string& question) {
  process_.say(question + "\n");
  const auto line = process_.line();
  EXPECT_TRUE(line) << "the server has ended";
  Numbers numbers;
  std::istringstream words(line.value_or(""));
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    EXPECT_NE(equals, std::string::npos) << *line;
    if (equals == std::string::npos) break;
    numbers[word.substr(0, equals)] = std::strtoull(word.c_str() + equals + 1, nullptr, 10);
  }
  return numbers;
}

Target::Numbers Target::when_idle() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    Numbers now = ask("status");
    const bool idle = now["sessions"] == 0 && now["requests"] == 0 && now["ranges"] == 0;
    if (idle || std::chrono::steady_clock::now() > give_up) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Target::Numbers Target::space_at_rest() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    Numbers now = ask("scrub");
    const bool at_rest = now["used"] == now["live"];
    if (at_rest || std::chrono::steady_clock::now() > give_up) return now;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int Target::stop() {
  process_.signal(SIGTERM);
  process_.close_input();
  return process_.wait();
}

}  // namespace verbena::serve
