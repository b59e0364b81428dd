// SPDX-License-Identifier: Apache-2.0
// What it costs to write an object from chunks, 4048 bytes in each 4096 of memory: buffered writes
// of vectors, against copying into aligned memory for direct writes, both with an fsync. Then whole
// updates and loads of a directory tier. In the directory for temporary files (TMPDIR).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend/directory_tier.h"
#include "base/check.h"
#include "base/unique_fd.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kVector = 1024;  // IOV_MAX
constexpr size_t kBounceBytes = 4 << 20;

// Memory as the store has it.
class BenchChunks {
 public:
  explicit BenchChunks(size_t count)
      : memory_(static_cast<uint8_t*>(std::aligned_alloc(kPage, count * kPage)), std::free) {
    for (size_t i = 0; i < count * kPage; ++i) {
      memory_.get()[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    }
    for (size_t i = 0; i < count; ++i) {
      parts_.push_back({at(i), store::crc_of({at(i), kPartBytes})});
    }
  }
  [[nodiscard]] uint8_t* at(size_t i) const { return memory_.get() + i * kPage; }
  [[nodiscard]] std::span<const PartToPut> parts() const { return parts_; }

 private:
  std::unique_ptr<uint8_t, void (*)(void*)> memory_;
  std::vector<PartToPut> parts_;
};

class BenchFolder {
 public:
  BenchFolder() : path_(std::filesystem::temp_directory_path() / "verbena-bench-XXXXXX") {
    VERBENA_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~BenchFolder() { std::filesystem::remove_all(path_); }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] UniqueFd new_bench_file(const BenchFolder& folder, int flags) {
  const std::string path = folder.path() + "/file";
  unlink(path.c_str());
  UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | flags, 0600));
  VERBENA_CHECK(fd.valid());
  return fd;
}

void write_buffered(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const BenchChunks chunks(count);
  const BenchFolder folder;
  std::vector<iovec> vector(kVector);
  for (auto _ : state) {
    const UniqueFd fd = new_bench_file(folder, 0);
    for (size_t first = 0; first < count; first += kVector) {
      const size_t n = std::min(kVector, count - first);
      for (size_t i = 0; i < n; ++i) vector[i] = {chunks.at(first + i), kPartBytes};
      const auto bytes = static_cast<ssize_t>(n * kPartBytes);
      VERBENA_CHECK(pwritev(fd.get(), vector.data(), static_cast<int>(n),
                            static_cast<off_t>(first * kPartBytes)) == bytes);
    }
    VERBENA_CHECK(fsync(fd.get()) == 0);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kPartBytes);
}
BENCHMARK(write_buffered)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

void write_bounced(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const BenchChunks chunks(count);
  const BenchFolder folder;
  const size_t total = count * kPartBytes;
  const std::unique_ptr<uint8_t, void (*)(void*)> bounce(
      static_cast<uint8_t*>(std::aligned_alloc(kPage, kBounceBytes)), std::free);
  for (auto _ : state) {
    const UniqueFd fd = new_bench_file(folder, O_DIRECT);
    for (size_t at = 0; at < total; at += kBounceBytes) {
      const size_t bytes = std::min(kBounceBytes, total - at);
      for (size_t done = 0; done < bytes;) {
        const size_t in_part = (at + done) % kPartBytes;
        const size_t n = std::min(kPartBytes - in_part, bytes - done);
        std::memcpy(bounce.get() + done, chunks.at((at + done) / kPartBytes) + in_part, n);
        done += n;
      }
      const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
      VERBENA_CHECK(pwrite(fd.get(), bounce.get(), rounded, static_cast<off_t>(at)) ==
                    static_cast<ssize_t>(rounded));
    }
    VERBENA_CHECK(ftruncate(fd.get(), static_cast<off_t>(total)) == 0);
    VERBENA_CHECK(fsync(fd.get()) == 0);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kPartBytes);
}
BENCHMARK(write_bounced)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

// A new version, all parts of it.
void update_whole(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const BenchChunks chunks(count);
  const BenchFolder folder;
  auto tier = DirectoryTier::open(folder.path());
  VERBENA_CHECK(tier.has_value());
  NewState wanted{std::nullopt, {.version = 0, .size = count * kPartBytes, .modified_ns = 1}};
  for (auto _ : state) {
    if (wanted.state.version != 0) wanted.base = wanted.state.version;
    ++wanted.state.version;
    auto update = (*tier)->update({"object", {}}, wanted);
    VERBENA_CHECK(update && (*update)->put(0, chunks.parts()) && (*update)->commit());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kPartBytes);
}
BENCHMARK(update_whole)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

// One part of an object of so many: what it costs that the file is written anew.
void update_one_part(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const BenchChunks chunks(count);
  const BenchFolder folder;
  auto tier = DirectoryTier::open(folder.path());
  VERBENA_CHECK(tier.has_value());
  NewState wanted{std::nullopt, {.version = 1, .size = count * kPartBytes, .modified_ns = 1}};
  auto first = (*tier)->update({"object", {}}, wanted);
  VERBENA_CHECK(first && (*first)->put(0, chunks.parts()) && (*first)->commit());
  for (auto _ : state) {
    wanted.base = wanted.state.version++;
    auto update = (*tier)->update({"object", {}}, wanted);
    VERBENA_CHECK(update && (*update)->put(0, chunks.parts().first(1)) && (*update)->commit());
  }
}
BENCHMARK(update_one_part)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

// From the page cache, verified: 256 parts at a time.
void load_whole(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const BenchChunks chunks(count);
  const BenchFolder folder;
  auto tier = DirectoryTier::open(folder.path());
  VERBENA_CHECK(tier.has_value());
  auto update = (*tier)->update({"object", {}}, {std::nullopt, {1, count * kPartBytes, 1}});
  VERBENA_CHECK(update && (*update)->put(0, chunks.parts()) && (*update)->commit());
  std::vector<PartToLoad> parts;
  for (size_t i = 0; i < count; ++i) parts.push_back({chunks.at(i), 0});
  constexpr size_t kAtOnce = 256;
  for (auto _ : state) {
    for (size_t at = 0; at < count; at += kAtOnce) {
      const size_t n = std::min(kAtOnce, count - at);
      VERBENA_CHECK((*tier)->load({"object", {}}, 1, at, std::span(parts).subspan(at, n)));
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * kPartBytes);
}
BENCHMARK(load_whole)->Arg(16)->Arg(1024)->Arg(65536)->UseRealTime();

}  // namespace
}  // namespace verbena::backend
