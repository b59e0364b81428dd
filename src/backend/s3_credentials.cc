// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_credentials.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

namespace verbena::backend {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 10;

[[nodiscard]] std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

[[nodiscard]] std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

}  // namespace

std::optional<S3Credentials> parse_s3_credentials(std::string_view text, std::string_view profile) {
  S3Credentials found;
  bool wanted = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      wanted = line.ends_with(']') && trimmed(line.substr(1, line.size() - 2)) == profile;
      continue;
    }
    const size_t equals = line.find('=');
    if (!wanted || equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value = trimmed(line.substr(equals + 1));
    if (name == "aws_access_key_id") found.access_key = value;
    if (name == "aws_secret_access_key") found.secret_key = value;
    if (name == "aws_session_token") found.session_token = value;
  }
  if (found.access_key.empty() || found.secret_key.empty()) return std::nullopt;
  return found;
}

Result<S3Credentials> find_s3_credentials() {
  S3Credentials found{.access_key = variable("AWS_ACCESS_KEY_ID"),
                      .secret_key = variable("AWS_SECRET_ACCESS_KEY"),
                      .session_token = variable("AWS_SESSION_TOKEN")};
  if (!found.access_key.empty() && !found.secret_key.empty()) return found;
  std::string path = variable("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = variable("HOME") + "/.aws/credentials";
  std::string profile = variable("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  std::string text(kMaxFileBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (auto parsed = parse_s3_credentials(text, profile)) return *parsed;
  return fail(
      Error{Code::kInvalid,
            fmt::format("S3 needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                        "the profile '{}' in {}",
                        profile, path),
            {}});
}

std::string find_s3_ca_file() { return variable("AWS_CA_BUNDLE"); }

}  // namespace verbena::backend
