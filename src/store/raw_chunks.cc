// SPDX-License-Identifier: Apache-2.0
#include "store/raw_chunks.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "store/folder_names.h"
#include "store/folder_shape.h"
#include "store/record.h"

namespace verbena::store {
namespace {

constexpr uint32_t kReadAtOnce = 256;
constexpr uint64_t kLeastBlockBytes = 16 * kChunkBytes;  // all block sizes are multiples of it

bool all_zero(const uint8_t* chunk) {
  return chunk[0] == 0 && std::memcmp(chunk, chunk + 1, kChunkBytes - 1) == 0;
}

}  // namespace

Result<RawChunks> RawChunks::open(const std::vector<std::string>& folders) {
  RawChunks raw;
  raw.buffer_.resize(size_t{kReadAtOnce} * kChunkBytes);
  for (const std::string& folder : folders) {
    const auto all = names_in(folder);
    if (!all) return fail(all.error());
    std::vector<std::string> names;
    for (const std::string& name : *all) {
      if (name.starts_with("blocks.") && !name.ends_with(".new")) {
        names.push_back(fmt::format("{}/{}", folder, name));
      }
    }
    if (names.empty()) raw.lost_.push_back(fmt::format("no files in {}", folder));
    raw.note_missing(folder, {all->begin(), all->end()});
    std::ranges::sort(names);
    for (const std::string& name : names) {
      File file{UniqueFd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)), 0};
      struct stat status{};
      if (!file.fd.valid() || fstat(file.fd.get(), &status) != 0) {
        return fail(Error{Code::kIo, name + ": " + std::strerror(errno), {}});
      }
      if (!S_ISREG(status.st_mode)) {
        return fail(Error{Code::kIo, name + " is not a regular file", {}});
      }
      file.chunks = static_cast<uint64_t>(status.st_size) / kChunkBytes;
      if (status.st_size == 0 || static_cast<uint64_t>(status.st_size) % kLeastBlockBytes != 0) {
        raw.lost_.push_back(fmt::format("{} was cut off: it has {} bytes", name, status.st_size));
      }
      raw.files_.push_back(std::move(file));
    }
  }
  if (raw.files_.empty()) {
    return fail(Error{Code::kNoStore, fmt::format("no store in {}", folders.front()), {}});
  }
  return raw;
}

// Files are numbered: those before the last one must be there.
void RawChunks::note_missing(const std::string& folder, std::set<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return !is_block_file(name); });
  if (names.empty()) return;
  const std::string last = *names.rbegin();
  const std::string prefix = last.substr(0, last.size() - 3);
  for (int number = std::stoi(last.substr(prefix.size())) - 1; number >= 0; --number) {
    const std::string name = fmt::format("{}{:03}", prefix, number);
    if (!names.contains(name)) lost_.push_back(fmt::format("{}/{} is missing", folder, name));
  }
}

// Into the buffer, of one file.
Result<void> RawChunks::read(uint64_t number, uint32_t count) {
  for (const File& file : files_) {
    if (number >= file.chunks) {
      number -= file.chunks;
      continue;
    }
    size_t done = 0;
    const size_t all = size_t{count} * kChunkBytes;
    while (done < all) {
      const ssize_t n = pread(file.fd.get(), buffer_.data() + done, all - done,
                              static_cast<off_t>(number * kChunkBytes + done));
      if (n < 0 && errno == EINTR) continue;
      // What the disk does not give is as good as damaged; what follows it is not.
      const size_t lost = n < 0 ? kChunkBytes - done % kChunkBytes : all - done;
      if (n <= 0) std::memset(buffer_.data() + done, 0xff, lost);
      done += n <= 0 ? lost : static_cast<size_t>(n);
    }
    return {};
  }
  return fail(Error{Code::kIo, fmt::format("chunk {} is not in the store", number), {}});
}

Result<RawFindings> RawChunks::scan(const Progress& progress) {
  uint64_t total = 0;
  for (const File& file : files_) total += file.chunks;
  uint64_t base = 0;
  for (const File& file : files_) {
    for (uint64_t at = 0; at < file.chunks; at += kReadAtOnce) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(kReadAtOnce, file.chunks - at));
      if (const auto done = read(base + at, count); !done) return fail(done.error());
      for (uint32_t i = 0; i < count; ++i) {
        note(buffer_.data() + size_t{i} * kChunkBytes, base + at + i);
      }
      if (progress && !progress(base + at + count, total)) {
        return fail(Error{Code::kInvalid, "stopped", {}});
      }
    }
    base += file.chunks;
  }
  // The store that most of the chunks are of.
  const auto most =
      std::ranges::max_element(stores_, {}, [](const auto& entry) { return entry.second.chunks; });
  RawFindings findings;
  if (most != stores_.end()) {
    findings = std::move(most->second.findings);
    auto outcome = most->second.history.objects();
    findings.objects = std::move(outcome.objects);
    findings.contents = std::move(outcome.contents);
    findings.all_shared = outcome.all;
    std::erase_if(findings.objects, [](const auto& object) { return object.second.empty(); });
  }
  findings.all = total;
  findings.bad = bad_;
  return findings;
}

void RawChunks::note(const uint8_t* chunk, uint64_t number) {
  const ChunkVerdict verdict = examine(std::span<const uint8_t, kChunkBytes>(chunk, kChunkBytes));
  if (verdict != ChunkVerdict::kGood) {
    if (!all_zero(chunk)) ++bad_;
    return;
  }
  const ChunkHead head = head_of(chunk);
  OfStore& store = stores_[head.store];
  ++store.chunks;
  if ((head.flags & (kFlagLog | kFlagCheckpoint)) != 0) return note_log(chunk, store);
  if (head.flags != 0 || head.birth.owner == 0 || head.birth.index >= kMaxIndex) return;
  store.history.wrote(head, number);
}

void RawChunks::note_log(const uint8_t* chunk, OfStore& store) {
  RawFindings& findings = store.findings;
  const ChunkHead head = head_of(chunk);
  RecordReader reader({chunk, std::min<size_t>(head.length, kDataBytes)});
  std::vector<Record> records;  // up to one that makes no sense
  while (!reader.done()) {
    const auto record = reader.next();
    if (!record) break;
    records.push_back(*record);
    // A checkpoint's chunks count from 0: older than anything in the log is near enough.
    const uint64_t sequence = head.flags == kFlagLog ? head.birth.index : 0;
    if (const auto* create = std::get_if<CreateRecord>(&*record)) {
      auto& known = findings.names[create->number];
      known.id = create->id;
      if (known.name.empty()) known.name = create->name;
    } else if (const auto* object = std::get_if<ObjectRecord>(&*record)) {
      // Of several tables the one of the last opening; of one opening any.
      auto& known = findings.names[object->number];
      known.id = object->id;
      if (known.sequence == 0 && head.birth.txn >= known.table) {
        known.name = object->name;
        known.table = head.birth.txn;
      }
    } else if (const auto* rename = std::get_if<RenameRecord>(&*record)) {
      auto& known = findings.names[rename->number];
      if (sequence >= known.sequence) {
        known.name = rename->name;
        known.sequence = sequence;
      }
    } else if (const auto* gone = std::get_if<DeleteRecord>(&*record)) {
      findings.deleted.insert(gone->number);
    }
  }
  store.history.said(head, records);
}

Result<std::span<const uint8_t, kDataBytes>> RawChunks::data(uint64_t number) {
  if (const auto done = read(number, 1); !done) return fail(done.error());
  if (examine(std::span<const uint8_t, kChunkBytes>(buffer_.data(), kChunkBytes)) !=
      ChunkVerdict::kGood) {
    return fail(Error{Code::kDamaged, fmt::format("chunk {} is damaged", number), {}});
  }
  return std::span<const uint8_t, kDataBytes>(buffer_.data(), kDataBytes);
}

}  // namespace verbena::store
