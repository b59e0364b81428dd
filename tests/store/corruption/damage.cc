// SPDX-License-Identifier: Apache-2.0
#include "damage.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>

namespace verbena::store::trial {
namespace {

// Bytes of a chunk.
struct Part {
  const char* name;
  size_t first;
  size_t end;
};
constexpr Part kData{"data", 0, kDataBytes};
constexpr Part kAll{"the whole", 0, kChunkBytes};
constexpr std::array kFields{
    Part{"id", 4048, 4056},     Part{"owner", 4056, 4064}, Part{"index", 4064, 4072},
    Part{"txn", 4072, 4080},    Part{"store", 4080, 4084}, Part{"data_crc", 4084, 4088},
    Part{"length", 4088, 4090}, Part{"flags", 4090, 4092}, Part{"crc32", 4092, 4096},
};

class Work {
 public:
  Work(const Sample& sample, RandomSource& random)
      : sample_(sample), random_(random), store_{sample.now, {}} {}

  DamagedStore take() { return std::move(store_); }
  [[nodiscard]] const Sample& sample() const { return sample_; }
  [[nodiscard]] RandomSource& random() { return random_; }
  [[nodiscard]] FilesImage& image() { return store_.image; }
  template <typename... Values>
  void say(fmt::format_string<Values...> form, Values&&... values) {
    if (!store_.what.empty()) store_.what += "; ";
    store_.what += fmt::format(form, std::forward<Values>(values)...);
  }

  // --- where
  [[nodiscard]] uint64_t live() {
    return std::next(sample_.data.begin(), draw(sample_.data.size()))->first;
  }
  [[nodiscard]] Twice twice(Twice::Kind kind) {
    std::vector<Twice> all;
    std::ranges::copy_if(sample_.twice, std::back_inserter(all),
                         [&](const Twice& one) { return one.kind == kind; });
    // Right behind a checkpoint the log is its last chunk alone.
    return all.empty() ? sample_.twice.back() : all[random_.below(all.size())];
  }
  [[nodiscard]] uint64_t free_one() { return sample_.free[random_.below(sample_.free.size())]; }

  // --- how
  void flip(uint64_t chunk, const Part& part, uint64_t bits) {
    for (uint64_t i = 0; i < bits; ++i) {
      const size_t at = part.first + random_.below(part.end - part.first);
      const uint64_t bit = random_.below(8);
      image().chunk(chunk)[at] ^= static_cast<uint8_t>(1u << bit);
      say("bit {} of byte {} of chunk {} ({})", bit, at, chunk, part.name);
    }
  }
  void scrawl(uint64_t chunk, const Part& part) {
    const size_t room = part.end - part.first;
    const size_t length = 1 + random_.below(std::min<size_t>(room, 600));
    const size_t at = part.first + random_.below(room - length + 1);
    for (size_t i = 0; i < length; ++i) {
      image().chunk(chunk)[at + i] = static_cast<uint8_t>(random_.next());
    }
    say("{} bytes at {} of chunk {} ({})", length, at, chunk, part.name);
  }
  void fill(uint64_t chunk, uint8_t with) {
    std::ranges::fill(image().chunk(chunk), with);
    say("chunk {} is {:#x} all over", chunk, with);
  }
  void put(uint64_t chunk, std::span<const uint8_t, kChunkBytes> from, const char* what) {
    std::ranges::copy(from, image().chunk(chunk).begin());
    say("chunk {} is {}", chunk, what);
  }
  void swap(uint64_t one, uint64_t two) {
    std::ranges::swap_ranges(image().chunk(one), image().chunk(two));
    say("chunks {} and {} swapped", one, two);
  }
  // Anything that spoils one chunk.
  void spoil(uint64_t chunk) {
    switch (random_.below(6)) {
      case 0:  return flip(chunk, kAll, 1);
      case 1:  return flip(chunk, kAll, 2 + random_.below(30));
      case 2:  return scrawl(chunk, kAll);
      case 3:  return fill(chunk, 0);
      case 4:  return fill(chunk, 0xff);
      default: return put(chunk, sample_.other.chunk(chunk), "another store's");
    }
  }

 private:
  ptrdiff_t draw(size_t bound) { return static_cast<ptrdiff_t>(random_.below(bound)); }

  const Sample& sample_;
  RandomSource& random_;
  DamagedStore store_;
};

using Harm = std::function<void(Work&)>;

void swap_data(Work& work, bool one_object) {
  const uint64_t one = work.live();
  std::vector<uint64_t> others;
  const ObjectId object = work.sample().data.at(one).front().object;
  for (const auto& [chunk, uses] : work.sample().data) {
    if (chunk != one && (uses.front().object == object) == one_object) others.push_back(chunk);
  }
  if (others.empty()) return work.flip(one, kData, 1);
  work.swap(one, others[work.random().below(others.size())]);
}

void add_data_kinds(std::vector<Harm>& kinds) {
  kinds.emplace_back([](Work& work) { work.flip(work.live(), kData, 1); });
  kinds.emplace_back(
      [](Work& work) { work.flip(work.live(), kData, 2 + work.random().below(40)); });
  kinds.emplace_back([](Work& work) { work.scrawl(work.live(), kData); });
  for (const Part& part : kFields) {
    kinds.emplace_back([part](Work& work) { work.flip(work.live(), part, 1); });
    kinds.emplace_back([part](Work& work) { work.scrawl(work.live(), part); });
  }
  kinds.emplace_back([](Work& work) { work.fill(work.live(), 0); });
  kinds.emplace_back([](Work& work) { work.fill(work.live(), 0xff); });
  kinds.emplace_back([](Work& work) { swap_data(work, true); });
  kinds.emplace_back([](Work& work) { swap_data(work, false); });
  kinds.emplace_back([](Work& work) {
    const auto& reused = work.sample().reused;
    const uint64_t chunk = reused[work.random().below(reused.size())];
    work.put(chunk, work.sample().older.chunk(chunk), "what was there before");
  });
  kinds.emplace_back([](Work& work) {
    const uint64_t chunk = work.live();
    work.put(chunk, work.sample().other.chunk(chunk), "another store's");
  });
  kinds.emplace_back([](Work& work) {  // a write that went elsewhere
    const uint64_t from = work.live();
    work.put(work.live(), work.sample().now.chunk(from), "a copy of another chunk");
  });
  kinds.emplace_back([](Work& work) {
    for (uint64_t i = 2 + work.random().below(8); i > 0; --i) work.spoil(work.live());
  });
}

void add_twice_kinds(std::vector<Harm>& kinds) {
  using Which = Twice::Kind;
  for (const Which kind : {Which::kSuperblock, Which::kCheckpoint, Which::kLog, Which::kLastLog}) {
    for (const bool second : {false, true}) {
      const auto one = [kind, second](Work& work) {
        const Twice twice = work.twice(kind);
        return second ? twice.b : twice.a;
      };
      kinds.emplace_back([one](Work& work) { work.flip(one(work), kAll, 1); });
      kinds.emplace_back([one](Work& work) { work.spoil(one(work)); });
      kinds.emplace_back([one](Work& work) {
        const uint64_t chunk = one(work);
        work.put(chunk, work.sample().other.chunk(chunk), "another store's");
      });
      kinds.emplace_back([one](Work& work) {
        const uint64_t chunk = one(work);
        work.put(chunk, work.sample().older.chunk(chunk), "what was there before");
      });
      kinds.emplace_back([one](Work& work) {
        const uint64_t chunk = one(work);
        work.swap(chunk, work.live());
      });
    }
    kinds.emplace_back([kind](Work& work) {
      const Twice twice = work.twice(kind);
      work.spoil(twice.a);
      work.spoil(twice.b);
    });
    kinds.emplace_back([kind](Work& work) {
      const Twice twice = work.twice(kind);
      work.swap(twice.a, twice.b);
    });
  }
  // One copy of each of several.
  kinds.emplace_back([](Work& work) {
    for (const Twice& twice : work.sample().twice) {
      if (work.random().below(3) == 0) work.spoil(work.random().below(2) == 0 ? twice.a : twice.b);
    }
    work.spoil(work.twice(Which::kLog).a);
  });
  kinds.emplace_back([](Work& work) {
    const uint64_t one = work.twice(Which::kLog).a;
    work.swap(one, work.twice(Which::kLastLog).a);
  });
  kinds.emplace_back([](Work& work) {
    work.put(work.twice(Which::kLog).b, work.sample().now.chunk(work.twice(Which::kLog).b),
             "a copy of another of the log");
  });
}

// To `kept` bytes; to none: the file is gone.
void cut_last(Work& work, uint64_t kept) {
  const uint64_t by = work.image().files.back() - kept;
  work.image().cut_last(by);
  if (kept == 0) work.image().files.pop_back();
  work.say("the last file is cut to {} bytes", kept);
}

// Chunks out of a backup. Not both copies of any: an older store that is whole is not damaged.
void restore(Work& work, uint64_t first, uint64_t end) {
  const auto within = [&](uint64_t chunk) { return chunk >= first && chunk < end; };
  end = std::min(end, work.sample().older.chunks());
  if (std::ranges::any_of(work.sample().twice,
                          [&](const Twice& one) { return within(one.a) && within(one.b); })) {
    return work.spoil(work.live());
  }
  for (uint64_t chunk = first; chunk < end; ++chunk) {
    std::ranges::copy(work.sample().older.chunk(chunk), work.image().chunk(chunk).begin());
  }
  work.say("chunks {} to {} are what was there before", first, end);
}

void add_backup_kinds(std::vector<Harm>& kinds) {
  const auto restore_block = [](Work& work, uint64_t chunk) {
    const uint64_t first = chunk / kSampleChunksPerBlock * kSampleChunksPerBlock;
    restore(work, first, first + kSampleChunksPerBlock);
  };
  kinds.emplace_back([=](Work& work) { restore_block(work, work.live()); });
  kinds.emplace_back([=](Work& work) { restore_block(work, work.twice(Twice::Kind::kLog).a); });
  kinds.emplace_back(
      [=](Work& work) { restore_block(work, work.twice(Twice::Kind::kSuperblock).b); });
  kinds.emplace_back([](Work& work) {  // all files but the first
    restore(work, work.sample().now.files.front() / kChunkBytes, work.image().chunks());
  });
}

void add_other_kinds(std::vector<Harm>& kinds) {
  for (int i = 0; i < 3; ++i) {
    kinds.emplace_back([](Work& work) { work.spoil(work.free_one()); });
  }
  kinds.emplace_back([](Work& work) {
    const uint64_t from = work.live();
    work.put(work.free_one(), work.sample().now.chunk(from), "a copy of a live chunk");
  });
  kinds.emplace_back([](Work& work) {
    for (const uint64_t chunk : work.sample().free) work.spoil(chunk);
  });
  // What is used of it lies at its beginning.
  constexpr uint64_t kBlockBytes = kSampleChunksPerBlock * kChunkBytes;
  kinds.emplace_back([](Work& work) { cut_last(work, 1 + work.random().below(6 * kBlockBytes)); });
  kinds.emplace_back(
      [](Work& work) { cut_last(work, (1 + work.random().below(6)) * kBlockBytes); });
  kinds.emplace_back([](Work& work) {
    const size_t file = work.random().below(work.image().files.size());
    if (file > 0) return cut_last(work, 0);
    work.image().lose(file);
    work.say("file {} is missing", file);
  });
}

const std::vector<Harm>& all_kinds() {
  static const std::vector<Harm> kinds = [] {
    std::vector<Harm> all;
    add_data_kinds(all);
    add_twice_kinds(all);
    add_backup_kinds(all);
    add_other_kinds(all);
    return all;
  }();
  return kinds;
}

}  // namespace

size_t damage_kinds() { return all_kinds().size(); }

DamagedStore destroy(const Sample& sample, size_t kind, RandomSource& random) {
  Work work(sample, random);
  all_kinds()[kind](work);
  return work.take();
}

}  // namespace verbena::store::trial
