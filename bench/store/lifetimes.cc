// SPDX-License-Identifier: Apache-2.0
#include "lifetimes.h"

#include <atomic>
#include <thread>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "common/ends.h"
#include "store/directory.h"

namespace verbena::bench {
void make_crashed_store(const std::string& folder, uint64_t bytes, uint32_t piece) {
  const pid_t child = fork();
  if (child == 0) {
    auto store = taken(store::DirectoryStore::create({folder}, {}));
    must(store->create_object(kObject));
    const std::vector<uint8_t> data(piece, 0x5a);
    for (uint64_t at = 0; at < bytes; at += piece) must(store->write(kObject, at, data));
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) std::exit(1);  // the child has said why
}

Opened open_store(const std::string& folder) {
  store::OpenReport report;
  const double begin = now_s();
  auto store = taken(store::DirectoryStore::open({folder}, {}, &report));
  return {now_s() - begin, report.mappings, report.verified_chunks};
}

double scrub_store(const std::string& folder) {
  const double begin = now_s();
  const auto report = taken(store::scrub({folder}));
  const double took = now_s() - begin;
  if (report.damaged > 0) must(fail(store::Error{store::Code::kDamaged, "damaged", {}}));
  return took;
}

double read_files(const std::string& folder, bool past_cache) {
  constexpr size_t kPiece = size_t{1} << 20;
  auto* const buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, kPiece));
  const double begin = now_s();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const UniqueFd file(
        ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | (past_cache ? O_DIRECT : 0)));
    while (read(file.get(), buffer, kPiece) == static_cast<ssize_t>(kPiece)) {}
  }
  const double took = now_s() - begin;
  std::free(buffer);
  return took;
}

namespace {

// A store with so many mappings, most of them of clones, none of them in a table yet.
store::DirectoryStore fragmented_store(const std::string& folder, uint64_t mappings,
                                       const store::DirectoryOptions& options) {
  constexpr uint64_t kRuns = 25'000;  // of one object; in two passes, so that no two lie together
  auto store = taken(store::DirectoryStore::create({folder}, options));
  must(store->create_object(kObject));
  const std::vector<uint8_t> chunk(store::kDataBytes, 0x5a);
  for (const uint64_t first : {0, 1}) {
    for (uint64_t i = first; i < kRuns; i += 2) {
      must(store->write(kObject, i * store::kDataBytes, chunk));
    }
  }
  for (uint64_t i = 1; i < mappings / kRuns; ++i) {
    must(store->clone({.from = kObject, .to = {4, i}}));
  }
  must(store->flush());
  return store;
}

}  // namespace

double checkpoint_store(const std::string& folder, uint64_t mappings) {
  auto store = fragmented_store(folder, mappings, {});
  const double begin = now_s();
  must(store->checkpoint());
  return now_s() - begin;
}

double longest_write_beside_checkpoint(const std::string& folder, uint64_t mappings, bool tended) {
  store::DirectoryOptions options;
  if (tended) options.store.on_due = [] {};
  auto store = fragmented_store(folder, mappings, options);
  constexpr ObjectId kOther{5, 5};
  must(store->create_object(kOther));
  const std::vector<uint8_t> chunk(store::kDataBytes, 0x5a);
  std::atomic<bool> done = false;
  std::atomic<bool> begun = false;
  double longest = 0;
  std::thread writer([&] {
    while (!done) {
      const double begin = now_s();
      must(store->write(kOther, 0, chunk));
      longest = std::max(longest, now_s() - begin);
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  must(store->checkpoint());
  done = true;
  writer.join();
  return longest;
}

double write_file(const std::string& path, uint64_t bytes) {
  const std::vector<uint8_t> piece(uint64_t{1} << 20, 0x5a);
  const double begin = now_s();
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  bool well = file.valid();
  for (uint64_t at = 0; well && at < bytes; at += piece.size()) {
    const uint64_t n = std::min<uint64_t>(piece.size(), bytes - at);
    well = write(file.get(), piece.data(), n) == static_cast<ssize_t>(n);
  }
  if (!well || fdatasync(file.get()) != 0) {
    fmt::print(stderr, "{} cannot be written\n", path);
    std::exit(1);
  }
  return now_s() - begin;
}

Cloned clone_and_copy(uint64_t bytes) {
  const auto store = make_store(Medium::kMalloc, {}, 3 * bytes, true);
  must(store->truncate(kObject, bytes));
  const uint64_t size = filled(*store);
  Cloned cloned;
  double begin = now_s();
  store::CloneRequest request;
  request.from = kObject;
  request.to = {3, 3};
  must(store->clone(request));
  cloned.clone = now_s() - begin;
  must(store->remove(request.to));
  must(store->create_object(request.to));
  std::vector<uint8_t> buffer(uint64_t{1} << 20);
  begin = now_s();
  for (uint64_t at = 0; at < size; at += buffer.size()) {
    const auto got = store->read(kObject, at, buffer);
    if (!got) must(fail(got.error()));
    must(store->write(request.to, at, std::span(buffer).first(*got)));
  }
  cloned.copy = now_s() - begin;
  return cloned;
}

}  // namespace verbena::bench
