// SPDX-License-Identifier: Apache-2.0
#include "backend/object_path.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/endian.h"

namespace verbena::backend {
namespace {

constexpr size_t kMaxComponentBytes = 255;
// Of escaped names. Any number up to 254 will do; it is part of the format.
constexpr size_t kPieceBytes = 200;

[[nodiscard]] bool is_component(std::string_view part) {
  return !part.empty() && part != "." && part != ".." && part.size() <= kMaxComponentBytes;
}

// Printable ASCII stays. Everything else becomes %XX, so that a piece is valid in whatever encoding
// a file system wants.
[[nodiscard]] std::string percent_encoded(std::string_view name) {
  std::string text;
  for (const char letter : name) {
    const auto byte = static_cast<uint8_t>(letter);
    if (byte > 0x20 && byte < 0x7f && letter != '/' && letter != '%') {
      text += letter;
    } else {
      text += fmt::format("%{:02X}", byte);
    }
  }
  return text;
}

[[nodiscard]] std::optional<uint64_t> from_hex(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text) {
  std::string name;
  while (!text.empty()) {
    if (text[0] != '%') {
      name += text[0];
      text.remove_prefix(1);
      continue;
    }
    const auto byte = text.size() < 3 ? std::nullopt : from_hex(text.substr(1, 2));
    if (!byte) return std::nullopt;
    name += static_cast<char>(*byte);
    text.remove_prefix(3);
  }
  return name;
}

}  // namespace

std::optional<std::string> plain_path(std::string_view name) {
  if (name.starts_with(kReserved)) return std::nullopt;
  for (std::string_view rest = name;;) {
    const size_t end = rest.find('/');
    if (!is_component(rest.substr(0, end))) return std::nullopt;
    if (end == std::string_view::npos) return std::string(name);
    rest.remove_prefix(end + 1);
  }
}

std::string escaped_path(std::string_view name) {
  const std::string text = percent_encoded(name);
  std::string path(kNamesFolder);
  size_t at = 0;
  for (; text.size() - at > kPieceBytes; at += kPieceBytes) {
    path += "/+" + text.substr(at, kPieceBytes);
  }
  return path + "/=" + text.substr(at);
}

std::string id_path(ObjectId id) {
  return fmt::format("{}/{:016x}-{:016x}", kIdsFolder, id.high, id.low);
}

std::optional<std::string> name_of_escaped(std::string_view path) {
  if (!path.starts_with(kNamesFolder)) return std::nullopt;
  std::string text;
  for (std::string_view rest = path.substr(kNamesFolder.size()); !rest.empty();) {
    rest.remove_prefix(1);  // '/'
    const size_t end = std::min(rest.find('/'), rest.size());
    if (end < 1) return std::nullopt;
    text += rest.substr(1, end - 1);
    rest.remove_prefix(end);
  }
  auto name = percent_decoded(text);
  // One name has one path: others that decode to it are nobody's.
  if (!name || escaped_path(*name) != path) return std::nullopt;
  return name;
}

std::optional<ObjectId> id_of_path(std::string_view path) {
  constexpr size_t kDigits = 16;
  const size_t prefix = kIdsFolder.size() + 1;
  if (path.size() != prefix + 2 * kDigits + 1) return std::nullopt;
  const auto high = from_hex(path.substr(prefix, kDigits));
  const auto low = from_hex(path.substr(prefix + kDigits + 1));
  if (!high || !low) return std::nullopt;
  const ObjectId id{*high, *low};
  if (id_path(id) != path) return std::nullopt;
  return id;
}

std::string digest_of(const Key& key) {
  std::string text = "n" + key.name;
  if (key.name.empty()) {
    std::array<uint8_t, 16> id{};
    store_be64(id.data(), key.id.high);
    store_be64(id.data() + 8, key.id.low);
    text = "i" + std::string(id.begin(), id.end());
  }
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  VERBENA_CHECK(
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (const uint8_t byte : std::span(digest).first(16)) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sums_path(const Key& key, int64_t file_modified_ns, uint64_t size) {
  const std::string digest = digest_of(key);
  return fmt::format("{}/{}/{}-{:016x}-{:016x}", kSumsFolder, digest.substr(0, 2), digest.substr(2),
                     static_cast<uint64_t>(file_modified_ns), size);
}

SplitPath split(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", std::string(path)};
  return {std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

}  // namespace verbena::backend
