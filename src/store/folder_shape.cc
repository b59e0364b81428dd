// SPDX-License-Identifier: Apache-2.0
#include "store/folder_shape.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "store/folder_names.h"
#include "store/record.h"
#include "store/roots.h"

namespace verbena::store {
namespace {

struct Member {
  uint32_t medium = 0;
  uint32_t media = 0;
};

// Of blocks.IofN.KKK: any of them shows that there is a store, though the first may be lost.
std::optional<Member> member_of(const std::string& name) {
  constexpr std::string_view kPrefix = "blocks.";
  constexpr size_t kSuffix = 4;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + kSuffix ||
      name[name.size() - kSuffix] != '.' ||
      !std::ranges::all_of(std::string_view(name).substr(name.size() - kSuffix + 1), digit)) {
    return std::nullopt;
  }
  const char* const end = name.data() + name.size() - kSuffix;
  Member member;
  const auto first = std::from_chars(name.data() + kPrefix.size(), end, member.medium);
  if (first.ec != std::errc{} || end - first.ptr < 3 || first.ptr[0] != 'o' ||
      first.ptr[1] != 'f') {
    return std::nullopt;
  }
  const auto second = std::from_chars(first.ptr + 2, end, member.media);
  if (second.ec != std::errc{} || second.ptr != end || member.medium >= member.media) {
    return std::nullopt;
  }
  return member;
}

// None if there is no such folder, either.
Result<std::optional<Member>> find_member(const std::string& folder) {
  const auto names = names_in(folder);
  if (!names) {
    if (names.error() == std::errc::no_such_file_or_directory ||
        names.error() == std::errc::not_a_directory) {
      return std::nullopt;
    }
    return fail(Error{Code::kIo, fmt::format("{}: {}", folder, names.error().message()), {}});
  }
  for (const std::string& name : *names) {
    if (const auto member = member_of(name)) return member;
  }
  return std::nullopt;
}

using Chunk = std::array<uint8_t, kChunkBytes>;

std::string path_of(const std::string& folder, uint32_t medium, uint32_t media) {
  return fmt::format("{}/blocks.{}of{}.000", folder, medium, media);
}

// A chunk of the first file of a medium; zeros if there is none.
Chunk read_chunk(const std::string& folder, uint32_t medium, uint32_t media, uint64_t chunk) {
  Chunk bytes{};
  const std::string path = path_of(folder, medium, media);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.valid()) {
    static_cast<void>(
        !pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(chunk * kChunkBytes)));
  }
  return bytes;
}

// The second superblock lies at the beginning of block 1: in the second folder, or behind block 0,
// however long that is.
Chunk read_second(const std::vector<std::string>& folders) {
  const auto media = static_cast<uint32_t>(folders.size());
  if (media > 1) return read_chunk(folders[1], 1, media, 0);
  Chunk best{};
  for (uint32_t chunks = kMaxRunChunks; chunks >= 16; chunks /= 2) {
    const Chunk bytes = read_chunk(folders[0], 0, 1, chunks);
    const auto root = decode_superblock(bytes);
    if (root && root->chunks_per_block == chunks) return bytes;
    if (chunks == kMaxRunChunks || (!root && root.error() != SuperblockFault::kMagic)) best = bytes;
  }
  return best;
}

// Whether there is nothing that salvage could bring back. Superblocks may be zeros because a disk
// has lost them.
bool holds_no_data(const std::string& folder) {
  const auto names = names_in(folder);
  if (!names) return false;
  for (const std::string& name : *names) {
    if (!name.starts_with("blocks.") || name.ends_with(".new")) continue;
    const std::string path = folder + "/" + name;
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid()) return false;
    Chunk bytes;
    for (off_t at = 0;; at += kChunkBytes) {
      const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), at);
      if (got < 0) return false;  // what cannot be read may be anything
      if (got < static_cast<ssize_t>(kChunkBytes)) break;
      if (bytes == Chunk{}) continue;
      const bool of_log = examine(bytes) == ChunkVerdict::kGood &&
                          (head_of(bytes.data()).flags & (kFlagLog | kFlagCheckpoint)) != 0;
      if (!of_log) return false;
    }
  }
  return true;
}

}  // namespace

Result<bool> holds_store(const std::string& folder) {
  const auto member = find_member(folder);
  if (!member) return fail(member.error());
  return member->has_value();
}

bool unfinished(const std::vector<std::string>& folders) {
  const auto media = static_cast<uint32_t>(folders.size());
  return read_chunk(folders[0], 0, media, 0) == Chunk{} && read_second(folders) == Chunk{} &&
         std::ranges::all_of(folders, holds_no_data);
}

Result<FolderShape> find_shape(const std::vector<std::string>& folders) {
  FolderShape shape;
  shape.folders.resize(folders.size());
  for (const std::string& folder : folders) {
    const auto found = find_member(folder);
    if (!found) return fail(found.error());
    const std::optional<Member>& member = *found;
    if (!member) {
      return fail(Error{Code::kNoStore, fmt::format("no store in {}", folder), {}});
    }
    if (member->media != folders.size()) {
      return fail(Error{Code::kInvalid,
                        fmt::format("{} is one of {} directories of a store; give all of them",
                                    folder, member->media),
                        {}});
    }
    if (!shape.folders[member->medium].empty()) {
      return fail(Error{Code::kInvalid,
                        fmt::format("{} and {} hold the same part of a store", folder,
                                    shape.folders[member->medium]),
                        {}});
    }
    shape.folders[member->medium] = folder;
    // What may not be read is not damaged; what is gone is.
    const std::string first = path_of(folder, member->medium, member->media);
    if (access(first.c_str(), R_OK) != 0) {
      if (errno == ENOENT) {
        return fail(
            Error{Code::kDamaged,
                  first + " is missing; `verbena salvage` builds a new store from what can be read",
                  {{}, 0, 0, "superblock", "a file", "missing"}});
      }
      return fail(Error{Code::kIo, fmt::format("{}: {}", first, std::strerror(errno)), {}});
    }
  }
  const Chunk first = read_chunk(shape.folders[0], 0, static_cast<uint32_t>(folders.size()), 0);
  const auto roots = read_roots(first, read_second(shape.folders));
  if (!roots) {
    Error error = roots.error();
    error.what = shape.folders[0] + ": " + error.what;
    return fail(std::move(error));
  }
  shape.chunks_per_block = roots->root.chunks_per_block;
  return shape;
}

}  // namespace verbena::store
