// SPDX-License-Identifier: Apache-2.0
// Where an object is in a directory: paths relative to it, of components that are neither empty nor
// "." nor "..", of at most 255 bytes each (docs/backend.md).
//
//   NAME                           plain: as the object is called
//   .verbena/names/+PIECE/=PIECE   escaped: a name that cannot be a path, or is in another's way
//   .verbena/ids/HIGH-LOW          an object without a name
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/tier.h"

namespace verbena::backend {

// Nobody else's: no plain path begins with it.
inline constexpr std::string_view kReserved = ".verbena";
inline constexpr std::string_view kNamesFolder = ".verbena/names";
inline constexpr std::string_view kIdsFolder = ".verbena/ids";
inline constexpr std::string_view kSumsFolder = ".verbena/sums";
inline constexpr std::string_view kTemporaryFolder = ".verbena/tmp";

// None if the name cannot be a path.
[[nodiscard]] std::optional<std::string> plain_path(std::string_view name);
[[nodiscard]] std::string escaped_path(std::string_view name);
[[nodiscard]] std::string id_path(ObjectId id);
// The other way round; none if no object has this path.
[[nodiscard]] std::optional<std::string> name_of_escaped(std::string_view path);
[[nodiscard]] std::optional<ObjectId> id_of_path(std::string_view path);

// 32 hexadecimal digits that stand for the key: of SHA-256, because names are chosen by anybody,
// and two that collide would share what is named after them.
[[nodiscard]] std::string digest_of(const Key& key);

// Of the sums of one state of a file. Two states of an object that differ in either number have
// sums beside each other.
[[nodiscard]] std::string sums_path(const Key& key, int64_t file_modified_ns, uint64_t size);

// "a/b" and "c" of "a/b/c"; an empty folder of "c".
struct SplitPath {
  std::string folder;
  std::string file;
};
[[nodiscard]] SplitPath split(std::string_view path);

}  // namespace verbena::backend
