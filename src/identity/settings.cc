// SPDX-License-Identifier: Apache-2.0
#include "identity/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace verbena::identity {
namespace {

using transport::Mtu;

// As long as rdma-core's structures allow, without the end.
constexpr size_t kLongestName = 63;

[[nodiscard]] bool is_name(std::string_view text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !text.empty() && text.size() <= kLongestName && text.front() != '.' &&
         text.find_first_not_of(kLetters) == std::string_view::npos;
}

[[nodiscard]] std::optional<Mtu> mtu_of(std::string_view text) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    if (text == std::to_string(transport::mtu_bytes(mtu))) return mtu;
  }
  return std::nullopt;
}

// Bytes, or as many K, M or G.
[[nodiscard]] std::optional<uint32_t> receive_buffer_of(std::string_view text) {
  constexpr uint64_t kLeast = 64 << 10;  // a message of the largest MTU, several times
  uint64_t unit = 1;
  if (text.ends_with('K')) unit = 1 << 10;
  if (text.ends_with('M')) unit = 1 << 20;
  if (text.ends_with('G')) unit = 1 << 30;
  if (unit != 1) text.remove_suffix(1);
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const uint64_t bytes = count * unit;
  if (bytes < kLeast || bytes > link::kMostReceiveBuffer) return std::nullopt;
  return static_cast<uint32_t>(bytes);
}

}  // namespace

Reading read_settings(const Lookup& value_of) {
  Reading reading;
  Settings& settings = reading.settings;
  // Empty is unset, as shells make it.
  const auto given = [&](const char* name) {
    const char* const value = value_of(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const auto wrong = [&](const char* name, std::string_view value, std::string_view wanted) {
    reading.problems.push_back(std::string(name) + " is '" + std::string(value) + "'; " +
                               std::string(wanted));
  };

  const auto kind = given(kIdentityVariable);
  if (kind == "connectx") {
    settings.kind = Kind::kConnectX;
  } else if (!kind.empty() && kind != "verbena") {
    wrong(kIdentityVariable, kind, "valid values: verbena, connectx");
  }
  const bool connectx = settings.kind == Kind::kConnectX;
  settings.gids.with_v1 = connectx;

  // Programs know an mlx5 device by its name, too.
  settings.device_name = connectx ? "mlx5_0" : "verbena0";
  const auto name = given(kDeviceVariable);
  if (is_name(name)) {
    settings.device_name = name;
  } else if (!name.empty()) {
    wrong(kDeviceVariable, name, "a name has up to 63 letters, digits, '_', '-' and '.'");
  }

  const auto addresses = given(kAddressesVariable);
  if (auto choice = device::AddressChoice::parse(addresses)) {
    settings.gids.offered = std::move(*choice);
  } else {
    wrong(kAddressesVariable, addresses, choice.error());
  }

  const auto mtu = given(kMtuVariable);
  if (const auto known = mtu_of(mtu)) {
    settings.gids.mtu_at_most = *known;
  } else if (!mtu.empty()) {
    wrong(kMtuVariable, mtu, "valid values: 256, 512, 1024, 2048, 4096");
  }

  const auto link = given(kLinkVariable);
  if (const auto known = link::link_named(link)) {
    settings.link = *known;
  } else if (!link.empty()) {
    wrong(kLinkVariable, link, "valid values: auto, udp, shared");
  }

  const auto buffer = given(kReceiveBufferVariable);
  if (const auto bytes = receive_buffer_of(buffer)) {
    settings.receive_buffer_bytes = *bytes;
  } else if (!buffer.empty()) {
    wrong(kReceiveBufferVariable, buffer, "valid values: 64K to 1G, in bytes, K, M or G");
  }

  const auto verbose = given(kVerboseVariable);
  settings.verbose = !verbose.empty() && verbose != "0";
  const auto quiet = given(kQuietVariable);
  settings.quiet = !quiet.empty() && quiet != "0";
  settings.counters_file = given(kCountersVariable);
  settings.secret_file = given(kSecretVariable);
  return reading;
}

const Settings& settings() {
  // Leaked on purpose: programs call in from their own exit handlers.
  static const Settings* const kSettings = [] {
    Reading reading = read_settings([](const char* name) { return std::getenv(name); });
    if (reading.settings.verbose) {
      for (const std::string& problem : reading.problems) {
        std::fprintf(stderr, "verbena: %s. The default is used instead.\n", problem.c_str());
      }
    }
    return new Settings(std::move(reading.settings));
  }();
  return *kSettings;
}

}  // namespace verbena::identity
