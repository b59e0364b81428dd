// SPDX-License-Identifier: Apache-2.0
#include "cli/choices.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/secret_file.h"
#include "cli/installation.h"
#include "identity/settings.h"

namespace verbena::cli {
namespace {

[[nodiscard]] std::string value_in(const Environment& in, std::string_view name) {
  const auto found = in.find(name);
  return found == in.end() ? "" : found->second;
}

void put_first(const std::string& item, const std::string& variable, Environment& in) {
  const std::string before = value_in(in, variable);
  // At any place of a list, as a whole item.
  if ((':' + before + ':').find(':' + item + ':') != std::string::npos) return;
  in[variable] = before.empty() ? item : item + ':' + before;
}

// As each process that opens the device will find it.
[[nodiscard]] Result<void, std::string> check_secret(const std::string& file) {
  const auto read = read_secret(file, SecretSource::kFile);
  if (!read) return fail(read.error());
  return {};
}

}  // namespace

std::optional<View> view_named(std::string_view name) {
  if (name == "preload") return View::kPreload;
  if (name == "namespace") return View::kNamespace;
  if (name == "none") return View::kNone;
  if (name == "auto") return View::kAuto;
  return std::nullopt;
}

Environment this_environment() {
  Environment found;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view item = *at;
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    found.emplace(item.substr(0, equals), item.substr(equals + 1));
  }
  return found;
}

Result<void, std::string> set_variables(const Choices& choices, Environment& to) {
  std::string addresses;
  for (const std::string& address : choices.addresses) {
    addresses += (addresses.empty() ? "" : ",") + address;
  }
  struct Given {
    const char* variable;
    const char* option;
    std::string value;
  };
  // The program may go elsewhere before it writes.
  const std::string counters =
      choices.counters.empty() ? "" : std::filesystem::absolute(choices.counters).string();
  const std::string secret = choices.secret.value_or("").empty()
                                 ? ""
                                 : std::filesystem::absolute(*choices.secret).string();
  const std::array<Given, 10> all{
      {{identity::kDeviceVariable, "--name", choices.name},
       {identity::kIdentityVariable, "--identity", choices.identity},
       {identity::kAddressesVariable, "--address", addresses},
       {identity::kMtuVariable, "--mtu", choices.mtu},
       {identity::kLinkVariable, "--link", choices.link},
       {identity::kReceiveBufferVariable, "--receive-buffer", choices.receive_buffer},
       {identity::kSecretVariable, "--secret", secret},
       {identity::kVerboseVariable, "--verbose", choices.verbose ? "1" : ""},
       {identity::kQuietVariable, "--quiet", choices.quiet ? "1" : ""},
       {identity::kCountersVariable, "--counters", counters}}};
  for (const Given& given : all) {
    if (!given.value.empty()) to[given.variable] = given.value;
  }
  if (choices.rsockets) put_first(kRsocketsLibrary, "LD_PRELOAD", to);
  // The library says nothing when it cannot write at the program's end.
  if (!counters.empty() && !std::ofstream(counters, std::ios::app)) {
    return fail("--counters is '" + choices.counters +
                "', which cannot be written: " + std::strerror(errno));
  }

  // Nor why it does not open the device.
  if (choices.secret && secret.empty()) return fail("--secret is empty; a file is needed");
  if (const std::string file = value_in(to, identity::kSecretVariable); !file.empty()) {
    if (const auto checked = check_secret(file); !checked) return checked;
  }

  const auto reading = identity::read_settings([&](const char* name) {
    const auto found = to.find(name);
    return found == to.end() ? nullptr : found->second.c_str();
  });
  if (reading.problems.empty()) return {};
  // In the words in which it was said.
  std::string problem = reading.problems.front();
  for (const Given& given : all) {
    if (!given.value.empty() && problem.starts_with(given.variable)) {
      problem.replace(0, std::strlen(given.variable), given.option);
    }
  }
  return fail(problem);
}

std::string warning_about(const Environment& environment) {
  const std::string file = value_in(environment, identity::kSecretVariable);
  if (file.empty()) return "";
  const auto read = read_secret(file, SecretSource::kFile);
  return read && read->exposed ? "other users can read the secret in " + file : "";
}

void use_libraries(const std::string& directory, View view, Environment& in) {
  put_first(directory, "LD_LIBRARY_PATH", in);
  if (view != View::kPreload) return;
  put_first(directory + '/' + kPathsLibrary, "LD_PRELOAD", in);
  // AddressSanitizer insists on being the first library, for its malloc's sake; ours has none, and
  // calls on to it.
  const std::string asan = value_in(in, "ASAN_OPTIONS");
  if (asan.find("verify_asan_link_order") == std::string::npos) {
    in["ASAN_OPTIONS"] = (asan.empty() ? "" : asan + ':') + "verify_asan_link_order=0";
  }
}

}  // namespace verbena::cli
