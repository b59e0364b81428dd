// SPDX-License-Identifier: Apache-2.0
// A sender that says anything: the receiver's machine cuts it off, or asks for what it may ask for.
#include <gtest/gtest.h>

#include "base/random.h"
#include "transfer/path.h"
#include "transfer/receiving.h"

namespace verbena::transfer {
namespace {

using SlotBytes = std::vector<uint8_t>;
constexpr uint32_t kSenderChunk = 4096;
constexpr ReceiveLimits kVictimLimits{.chunk_bytes = kSenderChunk,
                                      .slots = 4,
                                      .max_file_bytes = 100 * kSenderChunk,
                                      .max_files = 200,
                                      .max_open = 8,
                                      .max_open_chunks = 150};

// The machine's owner: carries out nothing, but checks everything that it is asked to do.
class Victim {
 public:
  explicit Victim(std::optional<protocol::Mac> proof = {}) : machine_(kVictimLimits, proof) {
    for (auto& slot : slots_) slot.resize(machine_.slot_bytes());
    machine_.start(1, 2);
    check();
  }

  void frame(uint32_t slot, const std::vector<Record>& records,
             std::span<const uint8_t> data = {}) {
    SlotBytes bytes(machine_.slot_bytes());
    FrameWriter frame(bytes);
    for (const Record& record : records) ASSERT_TRUE(frame.add(record));
    std::copy_n(data.begin(), std::min(data.size(), frame.data().size()), frame.data().begin());
    bytes.resize(frame.finish());
    raw(slot, bytes);
  }
  void raw(uint32_t slot, std::span<const uint8_t> bytes) {
    if (slot >= slots_.size()) {
      machine_.on_frame(slot, {});
    } else {
      std::ranges::copy(bytes, slots_[slot].begin());
      machine_.on_frame(slot, slots_[slot]);
    }
    check();
  }
  void finish(JobId job, JobResult result = {}) {
    std::erase(jobs, job);
    machine_.on_done(job, std::move(result));
    check();
  }
  void finish_all() {
    while (!jobs.empty()) finish(jobs.front());
  }

  std::string why;          // it was cut off
  std::vector<JobId> jobs;  // to be finished
  std::vector<std::string> failed;
  std::vector<FileId> dropped;
  size_t ready = 0;
  size_t actions = 0;
  uint64_t punched = 0;
  Receiving& machine() { return machine_; }

 private:
  void check() {
    for (auto& action : machine_.take_actions()) {
      ++actions;
      std::visit([this](const auto& one) { check(one); }, action);
    }
  }
  void check_path(const std::string& path) { EXPECT_EQ(wrong_with_path(path), nullptr) << path; }
  void check(const OpenFile& open) {
    check_path(open.path);
    EXPECT_LE(open.size, kVictimLimits.max_file_bytes);
    sizes_[open.file] = open.size;
    jobs.push_back(open.job);
  }
  void check(const WriteChunk& write) {
    ASSERT_TRUE(sizes_.contains(write.file));
    EXPECT_LE(write.offset + write.data.size(), sizes_[write.file]);
    jobs.push_back(write.job);
  }
  void check(const PunchHole& hole) {
    ASSERT_TRUE(sizes_.contains(hole.file));
    EXPECT_LE(hole.length, sizes_[hole.file]);
    EXPECT_LE(hole.offset, sizes_[hole.file] - hole.length);
    punched += hole.length;
    jobs.push_back(hole.job);
  }
  void check(const CloseFile& close) { jobs.push_back(close.job); }
  void check(const StoreSmall& small) {
    check_path(small.path);
    EXPECT_LE(small.data.size(), kVictimLimits.max_file_bytes);
    jobs.push_back(small.job);
  }
  void check(const MakeFolder& folder) {
    check_path(folder.path);
    jobs.push_back(folder.job);
  }
  void check(const DropFile& drop) { dropped.push_back(drop.file); }
  void check(const FileFailed& one) { failed.push_back(one.text); }
  void check(const SendReply& reply) {
    const auto decoded = decode_reply(reply.bytes);
    ASSERT_TRUE(decoded);
    EXPECT_LE(reply.bytes.size(), kMaxReplyBytes);
    ready += std::holds_alternative<Ready>(*decoded);
  }
  void check(const EndConnection& end) { why = end.why; }

  Receiving machine_;
  std::array<SlotBytes, kVictimLimits.slots> slots_;
  std::map<FileId, uint64_t> sizes_;
};

Open open_of(FileId file, uint64_t size, std::string_view path = "file") {
  return {.file = file, .size = size, .path = bytes_of(path)};
}
Small small_of(FileId file, std::string_view path) {
  return {.file = file, .crc = crc_of({}), .path = bytes_of(path)};
}

TEST(HostileSender, SlotsThatAreNotFree) {
  for (const uint32_t slot : {1U, 4U, 70'000U, UINT32_MAX}) {
    Victim victim;
    victim.frame(1, {small_of(1, "a")});
    EXPECT_EQ(victim.ready, 0u);  // the data is still in it
    victim.frame(slot, {small_of(2, "b")});
    EXPECT_EQ(victim.why, "a slot was written that was not free") << slot;
    victim.finish_all();
  }
}

TEST(HostileSender, RecordsOfFilesThatAreNotOpen) {
  for (const Record& record : std::initializer_list<Record>{Data{.file = 1}, Hole{.file = 1},
                                                            Close{.file = 1}, Abandon{.file = 1}}) {
    Victim victim;
    victim.frame(0, {record});
    EXPECT_EQ(victim.why, "data is of a file that is not open");
  }
}

TEST(HostileSender, NumbersUsedTwice) {
  for (const Record& record :
       std::initializer_list<Record>{open_of(3, 9999), small_of(3, "b"), Folder{.file = 3}}) {
    Victim victim;
    victim.frame(0, {small_of(3, "a"), record});
    EXPECT_EQ(victim.why, "a file's number was used before, or is far ahead");
    victim.finish_all();
  }
}

TEST(HostileSender, DataOutside) {
  const SlotBytes bytes(kSenderChunk);
  const uint32_t crc = crc_of(bytes);
  const auto try_one = [&](const Record& record) {
    Victim victim;
    victim.frame(0, {open_of(1, 10 * kSenderChunk + 1)});
    victim.finish_all();
    victim.frame(1, {record}, bytes);
    return victim.why;
  };
  EXPECT_EQ(try_one(Data{1, 9, kSenderChunk, crc}), "");
  for (const Record& record : std::initializer_list<Record>{
           Data{1, 11, kSenderChunk, crc}, Data{1, UINT64_MAX, kSenderChunk, crc},
           Data{1, 10, 2, crc}, Data{1, 10, 0, crc}, Data{1, 9, kSenderChunk - 1, crc},
           Data{1, uint64_t{1} << 52, 1, crc}}) {
    EXPECT_EQ(try_one(record), "data is outside of its file");
  }
  EXPECT_EQ(try_one(Hole{1, 0, 11}), "");
  EXPECT_EQ(try_one(Hole{1, 11, 0}), "");
  for (const Record& record :
       std::initializer_list<Record>{Hole{1, 0, 12}, Hole{1, 12, 0}, Hole{1, 1, UINT64_MAX},
                                     Hole{1, UINT64_MAX, 1}, Hole{1, UINT64_MAX, UINT64_MAX}}) {
    EXPECT_EQ(try_one(record), "a hole is outside of its file");
  }
}

// Otherwise the order of jobs would decide what is in the file, and a record of 21 bytes could cost
// as much as a whole file, again and again.
TEST(HostileSender, PartsThatComeTwice) {
  const SlotBytes bytes(kSenderChunk);
  const Data data{1, 5, kSenderChunk, crc_of(bytes)};
  const std::initializer_list<std::pair<Record, Record>> pairs{
      {data, data}, {data, Hole{1, 0, 10}}, {Hole{1, 5, 1}, data}, {Hole{1, 0, 6}, Hole{1, 5, 5}}};
  for (const auto& [first, second] : pairs) {
    Victim victim;
    victim.frame(0, {open_of(1, 10 * kSenderChunk)});
    victim.finish_all();
    victim.frame(1, {first}, bytes);
    EXPECT_EQ(victim.why, "");
    victim.frame(2, {second}, bytes);
    EXPECT_EQ(victim.why, "a part of a file comes twice");
    victim.finish_all();
  }
}

TEST(HostileSender, DataBehindTheEnd) {
  Victim victim;
  victim.frame(0, {open_of(1, 2 * kSenderChunk), Hole{1, 0, 2},
                   Close{1, crc_of_zeros(2 * kSenderChunk)}, Hole{1, 0, 1}});
  EXPECT_EQ(victim.why, "a file has data behind its end");
  Victim early;
  early.frame(0, {open_of(1, 2 * kSenderChunk), Hole{1, 0, 1}, Close{1, 0}});
  early.finish_all();
  EXPECT_EQ(early.why, "a file ends before all of its data");
}

TEST(HostileSender, FilesOfAnySize) {
  for (const uint64_t size : {uint64_t{100 * kSenderChunk} + 1, uint64_t{1} << 62, UINT64_MAX}) {
    Victim victim;
    victim.frame(0, {open_of(1, size), Hole{1, 0, UINT64_MAX}, Close{1, 0}});
    EXPECT_EQ(victim.why, "");
    EXPECT_EQ(victim.failed, std::vector<std::string>{"the file is too large"});
    EXPECT_TRUE(victim.machine().idle());
  }
  // All together.
  Victim victim;
  victim.frame(0, {open_of(1, 100 * kSenderChunk), open_of(2, 100 * kSenderChunk)});
  EXPECT_EQ(victim.jobs.size(), 1u);
  EXPECT_EQ(victim.failed, std::vector<std::string>{"the file is too large"});
}

TEST(HostileSender, SmallFilesAreLimitedToo) {
  constexpr ReceiveLimits kTiny{.chunk_bytes = kSenderChunk, .slots = 1, .max_file_bytes = 10};
  Receiving machine(kTiny, {});
  SlotBytes slot(machine.slot_bytes());
  FrameWriter frame(slot);
  ASSERT_TRUE(frame.add(Small{.file = 1, .length = 11, .path = bytes_of("a")}));
  ASSERT_GT(frame.finish(), 0u);
  machine.on_frame(0, slot);
  EXPECT_EQ(machine.jobs(), 0u);
  EXPECT_EQ(machine.failed(), 1u);
}

// Refused ones, which nobody closes, count as well.
TEST(HostileSender, TooManyFiles) {
  Victim open;
  for (FileId i = 1; i < 100 && open.why.empty(); ++i) {
    open.frame(0, {open_of(i, kSenderChunk, i % 2 == 0 ? "/refused" : "taken")});
  }
  EXPECT_EQ(open.why, "too many files are open at once");
  EXPECT_LE(open.jobs.size(), kVictimLimits.max_open);
  Victim all;
  for (FileId i = 1; i <= 300; ++i) {
    all.frame(0, {small_of(i, "a")});
    all.finish_all();
  }
  EXPECT_EQ(all.why, "");
  EXPECT_EQ(all.failed.size(), 300 - kVictimLimits.max_files);
  Victim ahead;
  for (FileId i = 2; i < 200'000 && ahead.why.empty(); ++i) ahead.frame(0, {small_of(i, "/a")});
  EXPECT_EQ(ahead.why, "a file's number was used before, or is far ahead");
}

// The owner must not keep what is opened too late.
TEST(HostileSender, FilesGivenUpWhileTheyAreOpened) {
  Victim victim;
  victim.frame(0, {open_of(1, 2 * kSenderChunk), Abandon{1}});
  ASSERT_EQ(victim.jobs.size(), 1u);
  victim.dropped.clear();
  victim.finish_all();
  EXPECT_EQ(victim.dropped, std::vector<FileId>{1});
  EXPECT_TRUE(victim.machine().idle());
}

TEST(HostileSender, Names) {
  const std::string long_part(256, 'n');
  for (const std::string_view path :
       {std::string_view(""), std::string_view("/"), std::string_view("/etc/passwd"),
        std::string_view(".."), std::string_view("../a"), std::string_view("a/.."),
        std::string_view("a/../../b"), std::string_view("."), std::string_view("a/./b"),
        std::string_view("a//b"), std::string_view("a/"), std::string_view("a\nb"),
        std::string_view("a\0b", 3), std::string_view("\x7f"), std::string_view("\x1b[2J"),
        std::string_view(".verbena-0.part"), std::string_view("a/.verbena-x/b"),
        std::string_view(long_part)}) {
    Victim victim;
    victim.frame(0, {small_of(1, path), Folder{.file = 2, .path = bytes_of(path)},
                     open_of(3, kSenderChunk, path)});
    EXPECT_EQ(victim.why, "") << path;
    EXPECT_EQ(victim.failed.size(), 3u) << path;
    EXPECT_TRUE(victim.jobs.empty()) << path;
  }
}

TEST(HostileSender, NothingBeforeTheProof) {
  protocol::Mac mac{};
  mac[0] = 1;
  Victim none(mac);
  none.frame(0, {small_of(1, "a")});
  EXPECT_EQ(none.why, "the shared secrets of sender and receiver differ");
  EXPECT_TRUE(none.jobs.empty());
  Victim wrong(mac);
  wrong.frame(0, {Proof{}, small_of(1, "a")});
  EXPECT_FALSE(wrong.why.empty());
  EXPECT_TRUE(wrong.jobs.empty());
  Victim right(mac);
  right.frame(0, {Proof{mac}, small_of(1, "a")});
  EXPECT_EQ(right.jobs.size(), 1u);
}

Record any_record(SeededRandom& random, std::span<const std::string> paths) {
  const auto file = static_cast<FileId>(random.below(12));
  const auto any = [&] { return random.below(4) == 0 ? random.next() : random.below(20); };
  const auto path = bytes_of(paths[random.below(paths.size())]);
  switch (random.below(10)) {
    case 0:
    case 1:
    case 2:  return Open{file, any() * 1000, {}, random.below(2) == 0, path};
    case 3:  return Data{file, any(), static_cast<uint32_t>(random.below(2) * kSenderChunk), 0};
    case 4:  return Hole{file, any(), any()};
    case 5:  return Close{file, static_cast<uint32_t>(random.below(2) * random.next())};
    case 6:  return Small{file, {}, static_cast<uint32_t>(random.below(50)), 0, path};
    case 7:  return Folder{file, {}, path};
    case 8:  return Abandon{file};
    default: return Proof{};
  }
}

// By seeds: records in any order, with jobs that end in any order and in any way, and bytes that
// are changed on the way.
TEST(HostileSender, AnyRecords) {
  const std::vector<std::string> paths{"a", "b/c", "", "../d", "/e", ".verbena-f", "g\n"};
  size_t cut_off = 0;
  size_t actions = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    Victim victim;
    for (int i = 0; i < 40; ++i) {
      if (!victim.jobs.empty() && random.below(3) != 0) {
        JobResult result{.crcs = std::vector<uint32_t>(random.below(30))};
        if (random.below(4) == 0) result = {Verdict::kFailed, "no", {}};
        victim.finish(victim.jobs[random.below(victim.jobs.size())], result);
      } else if (random.below(20) == 0) {
        SlotBytes bytes(100);
        for (auto& byte : bytes) byte = static_cast<uint8_t>(random.next());
        victim.raw(static_cast<uint32_t>(random.below(5)), bytes);
      } else {
        std::vector<Record> records;
        while (records.empty() || random.below(3) != 0)
          records.push_back(any_record(random, paths));
        if (records.size() > 10) records.resize(10);
        victim.frame(static_cast<uint32_t>(random.below(4)), records);
      }
      if (random.below(100) == 0) victim.machine().on_lost();
    }
    victim.finish_all();
    cut_off += !victim.why.empty();
    actions += victim.actions;
  }
  EXPECT_GT(cut_off, 100u);
  EXPECT_GT(actions, 1000u);
}

}  // namespace
}  // namespace verbena::transfer
