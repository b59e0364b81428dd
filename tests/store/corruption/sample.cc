// SPDX-License-Identifier: Apache-2.0
#include "sample.h"

#include <filesystem>
#include <set>
#include <variant>

#include "base/check.h"
#include "medium/nvdimm_backend.h"
#include "operation.h"
#include "store/log_reader.h"
#include "store/record.h"

namespace verbena::store::trial {
namespace {

using Kind = Operation::Kind;
constexpr uint32_t kBlocks = 24;

std::unique_ptr<medium::Backend> backend_in(const std::string& folder, bool read_only) {
  medium::NvdimmOptions options;
  options.files.folder = folder;
  options.files.block_bytes = kSampleChunksPerBlock * kChunkBytes;
  options.files.capacity = kBlocks;
  options.files.read_only = read_only;
  auto backend = medium::open_nvdimm_backend(options);
  VERBENA_CHECK(backend.has_value());
  return std::move(*backend);
}

// One history: everything that chunks can be, twice over, so that places are used again.
class Life {
 public:
  Life(const std::string& folder, uint64_t seed, uint64_t tag_seed)
      : folder_(folder), random_(seed) {
    std::filesystem::remove_all(folder);
    Options options;
    options.now_ns = [this] { return clock_ += 1'000'000; };
    SeededRandom tag(tag_seed);
    auto made = Store::create(backend_in(folder, false), options, tag);
    VERBENA_CHECK(made.has_value());
    store_ = std::move(*made);
  }

  void youth() {
    for (uint64_t i = 1; i <= 6; ++i) {
      run({.kind = Kind::kCreate,
           .id = {0, i},
           .name = i == 6 ? "" : "object-" + std::to_string(i)});
      const uint64_t chunks = 8 + random_.below(9);
      const uint64_t length = chunks * kDataBytes + random_.below(4000);
      write({0, i}, random_.below(3) * 1000, length);
    }
    clone({0, 1}, 0, 0, {1, 1}, 0, "whole clone");
    clone({0, 2}, kDataBytes, 2 * kDataBytes, {1, 2}, 3 * kDataBytes, "range");
    clone({0, 2}, 100, 2 * kDataBytes, {1, 3}, 7, "range across chunks");
    write({0, 3}, 50 * kDataBytes + 17, 3000);
    run({.kind = Kind::kTruncate, .id = {0, 4}, .length = 70 * kDataBytes + 5});
    run({.kind = Kind::kCheckpoint});
    for (uint64_t i = 0; i < 12; ++i) scribble();
  }
  FilesImage picture() {
    run({.kind = Kind::kFlush});
    return read_files(folder_);
  }
  void age() {
    run({.kind = Kind::kRemove, .id = {0, 5}});
    write({0, 6}, 0, 10 * kDataBytes);
    run({.kind = Kind::kTruncate, .id = {0, 2}, .length = kDataBytes + 99});
    for (int i = 0; i < 3; ++i) run({.kind = Kind::kFlush});
    run({.kind = Kind::kCheckpoint});
    for (uint64_t i = 1; i <= 4; ++i) {
      run({.kind = Kind::kCreate, .id = {2, i}, .name = "late-" + std::to_string(i)});
      const uint64_t length = (6 + random_.below(6)) * kDataBytes;
      write({2, i}, random_.below(2) * 3000, length);
    }
    clone({2, 1}, 0, 0, {1, 1}, 5 * kDataBytes, "");
    clone({1, 1}, 0, 0, {2, 9}, 0, "clone of a clone");
    run({.kind = Kind::kRename, .id = {2, 2}, .name = "of another name"});
    for (uint64_t i = 0; i < 14; ++i) scribble();
  }
  void end() {
    VERBENA_CHECK(store_->close().has_value());
    store_.reset();
  }
  [[nodiscard]] Model& model() { return model_; }

 private:
  void run(const Operation& operation) {
    const Refusal expected = apply(model_, operation);
    const Refusal got = apply(*store_, operation);
    VERBENA_CHECK(expected == got && !expected.has_value());
  }
  void write(ObjectId id, uint64_t offset, uint64_t length) {
    run({.kind = Kind::kWrite,
         .id = id,
         .offset = offset,
         .length = length,
         .data_seed = random_.next() | 1});
  }
  void clone(ObjectId from, uint64_t offset, uint64_t length, ObjectId to, uint64_t to_offset,
             const std::string& name) {
    run({.kind = Kind::kClone,
         .id = from,
         .to = to,
         .name = name,
         .offset = offset,
         .length = length,
         .to_offset = to_offset,
         .allow_existing = true});
  }
  // A write somewhere, in a log chunk of its own.
  void scribble() {
    const std::vector<ObjectId> ids = model_.listing();
    const ObjectId id = ids[random_.below(ids.size())];
    const uint64_t length = 1 + random_.below(2 * kDataBytes);
    write(id, random_.below(6 * kDataBytes), length);
    run({.kind = Kind::kFlush});
  }

  const std::string folder_;
  SeededRandom random_;
  uint64_t clock_ = 1'700'000'000'000'000'000;
  std::unique_ptr<Store> store_;
  Model model_;
};

void note_data(const Store& store, Sample& sample) {
  const auto listed = store.list(std::nullopt, 1000);
  for (const ObjectInfo& object : *listed) {
    const auto segments = store.segments(object.id, 0, 100'000);
    VERBENA_CHECK(segments.has_value());
    for (const SegmentInfo& segment : *segments) {
      for (uint32_t i = 0; i < segment.count; ++i) {
        Birth birth = segment.birth;
        birth.index += i;
        sample.data[segment.chunk + i].push_back(
            {object.id, segment.offset / kDataBytes + i, object.number, birth});
      }
    }
  }
}

void note_twice(Sample& sample) {
  sample.twice.push_back({Twice::Kind::kSuperblock, 0, kSampleChunksPerBlock});
  const auto root = decode_superblock(sample.now.chunk(0));
  VERBENA_CHECK(root.has_value());
  sample.tag = root->store;
  const ChunkMemory memory = [&](uint64_t chunk) { return sample.now.chunk(chunk).data(); };
  for (const LogChunk& chunk : read_extents(*root, root->checkpoint, kFlagCheckpoint, memory)) {
    VERBENA_CHECK(chunk.a && chunk.b);
    const auto record = RecordReader(chunk.records()).next();
    const bool dispensable =
        std::holds_alternative<NameRecord>(*record) || std::holds_alternative<IdRecord>(*record);
    sample.twice.push_back({Twice::Kind::kCheckpoint, chunk.chunk_a, chunk.chunk_b, dispensable});
  }
  for (const LogChunk& chunk : read_extents(*root, root->log, kFlagLog, memory)) {
    if (!chunk.a) break;
    sample.twice.push_back({Twice::Kind::kLog, chunk.chunk_a, chunk.chunk_b});
  }
  VERBENA_CHECK(sample.twice.back().kind == Twice::Kind::kLog);
  sample.twice.back().kind = Twice::Kind::kLastLog;
}

void note_rest(Sample& sample) {
  std::set<uint64_t> used;
  for (const Twice& twice : sample.twice) used.insert({twice.a, twice.b});
  for (const auto& [chunk, uses] : sample.data) used.insert(chunk);
  for (uint64_t chunk = 0; chunk < sample.now.chunks(); ++chunk) {
    if (!used.contains(chunk)) sample.free.push_back(chunk);
  }
  for (const auto& [chunk, uses] : sample.data) {
    const auto before = sample.older.chunk(chunk);
    if (!sample.now.same_chunk(sample.older, chunk) && examine(before) == ChunkVerdict::kGood &&
        head_of(before.data()).flags == 0) {
      sample.reused.push_back(chunk);
    }
  }
}

}  // namespace

Sample make_sample(uint64_t seed, const std::string& folder) {
  Sample sample;
  {
    Life twin(folder, seed, seed + 1'000'000);
    twin.youth();
    static_cast<void>(twin.picture());
    twin.age();
    twin.end();
    sample.other = read_files(folder);
  }
  Life life(folder, seed, seed);
  life.youth();
  sample.older = life.picture();
  life.age();
  life.end();
  sample.now = read_files(folder);
  sample.model = life.model();
  sample.older.bytes.resize(sample.now.bytes.size());

  Options options;
  options.read_only = true;
  const auto store = Store::open(backend_in(folder, true), options);
  VERBENA_CHECK(store.has_value());
  note_data(**store, sample);
  note_twice(sample);
  note_rest(sample);
  VERBENA_CHECK(!sample.reused.empty() && !sample.free.empty());
  VERBENA_CHECK(sample.now.files.size() > 1 && sample.now.files == sample.other.files);
  return sample;
}

}  // namespace verbena::store::trial
