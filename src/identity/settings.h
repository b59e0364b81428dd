// SPDX-License-Identifier: Apache-2.0
// What a user may choose about the device. The choices travel as VERBENA_* variables from `verbena
// run` to the libraries in the program's process; this is the one place that reads them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "device/gid_table.h"
#include "link/link_kind.h"
#include "link/udp_socket.h"

namespace verbena::identity {

inline constexpr const char* kDeviceVariable = "VERBENA_DEVICE";
inline constexpr const char* kIdentityVariable = "VERBENA_IDENTITY";
inline constexpr const char* kAddressesVariable = "VERBENA_ADDRESSES";
inline constexpr const char* kMtuVariable = "VERBENA_MTU";
inline constexpr const char* kVerboseVariable = "VERBENA_VERBOSE";
inline constexpr const char* kCountersVariable = "VERBENA_COUNTERS";
inline constexpr const char* kQuietVariable = "VERBENA_QUIET";
inline constexpr const char* kLinkVariable = "VERBENA_LINK";
inline constexpr const char* kSecretVariable = "VERBENA_SECRET";
inline constexpr const char* kReceiveBufferVariable = "VERBENA_RECEIVE_BUFFER";
inline constexpr std::array kVariables{kDeviceVariable,       kIdentityVariable, kAddressesVariable,
                                       kMtuVariable,          kVerboseVariable,  kCountersVariable,
                                       kQuietVariable,        kLinkVariable,     kSecretVariable,
                                       kReceiveBufferVariable};

enum class Kind : uint8_t { kVerbena, kConnectX };

struct Settings {
  Kind kind = Kind::kVerbena;
  std::string device_name;
  device::GidOptions gids;
  link::LinkKind link = link::LinkKind::kAuto;
  uint32_t receive_buffer_bytes = link::kWantedReceiveBuffer;
  std::string secret_file;    // of packets to and from other hosts
  bool verbose = false;       // the libraries may write to the standard error
  bool quiet = false;         // nor do they for what makes a program hang
  std::string counters_file;  // gets a line of the device's counters when the process ends
};

struct Reading {
  Settings settings;                  // the default in place of each wrong value
  std::vector<std::string> problems;  // one sentence each, for a person
};

// A variable's value, or null.
using Lookup = std::function<const char*(const char*)>;
[[nodiscard]] Reading read_settings(const Lookup& value_of);

// This process's: read from the environment by the first who asks; what is wrong is said then, if
// the settings allow to say anything.
[[nodiscard]] const Settings& settings();

}  // namespace verbena::identity
