// SPDX-License-Identifier: Apache-2.0
#include "store/folder_shape.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

Result<std::optional<Member>> find_member(const std::string& folder) {
  const auto names = names_in(folder);
  if (!names) return fail(names.error());
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
    const std::string path = fmt::format("{}/{}", folder, name);
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

bool is_block_file(const std::string& name) { return member_of(name).has_value(); }

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

std::optional<uint32_t> first_position(const FolderShape& shape, uint32_t medium, int fd) {
  constexpr uint32_t kMostBlocks = 4096;  // of 8 MiB: as large as a file can be
  constexpr uint32_t kChunks = 16;        // of each
  const auto media = static_cast<uint32_t>(shape.folders.size());
  const uint32_t per_block = shape.chunks_per_block;
  Chunk bytes;
  for (uint32_t block = 0; block < kMostBlocks; ++block) {
    for (uint32_t i = 0; i < kChunks; ++i) {
      const auto at = static_cast<off_t>((uint64_t{block} * per_block + i) * kChunkBytes);
      const ssize_t got = pread(fd, bytes.data(), bytes.size(), at);
      if (got >= 0 && static_cast<size_t>(got) < kChunkBytes) return std::nullopt;
      if (got < 0 || bytes == Chunk{}) continue;
      const ChunkHead head = head_of(bytes.data());
      const uint64_t position = head.id / per_block / media;
      const bool fits = head.store == shape.tag && head.id % per_block == i &&
                        head.id / per_block % media == medium && position >= block &&
                        position <= UINT32_MAX;
      if (fits && examine(bytes) == ChunkVerdict::kGood) {
        return static_cast<uint32_t>(position - block);
      }
    }
  }
  return std::nullopt;
}

namespace {

// Files of a medium that are not there or not as long as they were.
Result<void> check_files(FolderShape& shape, uint32_t medium) {
  const std::string& folder = shape.folders[medium];
  const auto media = static_cast<uint32_t>(shape.folders.size());
  const auto names = names_in(folder);
  if (!names) return fail(names.error());
  const std::string prefix = fmt::format("blocks.{}of{}.", medium, media);
  std::set<std::string> present;
  for (const std::string& name : *names) {
    if (member_of(name) && name.starts_with(prefix)) present.insert(name);
  }
  const uint64_t block_bytes = uint64_t{shape.chunks_per_block} * kChunkBytes;
  const auto damaged = [&](const std::string& name, std::string expected, std::string actual) {
    shape.files.push_back({{},
                           0,
                           0,
                           fmt::format("file {}/{}", folder, name),
                           std::move(expected),
                           std::move(actual)});
  };
  uint64_t first = 0;  // position of the next file's first block
  uint64_t usual = 8;  // blocks of the next file, if the disk had room
  bool sure = true;    // that the next one begins there
  std::string last;
  for (uint32_t index = 0; !present.empty(); ++index) {
    const std::string name = fmt::format("{}{:03}", prefix, index);
    if (!present.contains(name)) {
      if (index >= 1000) break;
      damaged(name, "present", "missing");
      sure = false;
      usual *= 2;
      continue;
    }
    present.erase(name);
    const std::string path = fmt::format("{}/{}", folder, name);
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status{};
    if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto bytes = static_cast<uint64_t>(status.st_size);
    if (!sure) {
      const auto begins = first_position(shape, medium, file.get());
      // The one before ended between two blocks.
      if (begins && *begins > first && shape.files.empty()) {
        damaged(last, fmt::format("{} blocks longer", *begins - first), "cut off");
      }
      if (begins) first = *begins;
    }
    if (bytes % block_bytes != 0 || bytes == 0) {
      damaged(name, fmt::format("whole blocks of {} bytes", block_bytes),
              fmt::format("{} bytes long", bytes));
    }
    const uint64_t blocks = (bytes + block_bytes - 1) / block_bytes;
    sure = blocks == usual && bytes % block_bytes == 0;
    first += blocks;
    usual = 2 * blocks;
    last = name;
  }
  return {};
}

}  // namespace

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
  shape.tag = roots->root.store;
  for (uint32_t medium = 0; medium < folders.size(); ++medium) {
    if (const auto done = check_files(shape, medium); !done) return fail(done.error());
  }
  return shape;
}

}  // namespace verbena::store
