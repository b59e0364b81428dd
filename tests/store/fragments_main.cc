// SPDX-License-Identifier: Apache-2.0
// verbena_store_fragments: a store of very many mappings, each of one chunk, on a medium that keeps
// nothing.
#include <chrono>
#include <cstdio>
#include <vector>

#include "medium/discard_backend.h"
#include "model.h"
#include "seeds.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr const char* kHelp = R"(verbena_store_fragments [OPTIONS]

Makes a store of objects that consist of single chunks with holes between them, on a medium that
discards data, and looks what the index takes.

  --mappings N   how many (200000)
  --seed S       in which order (1)
  --help         this
)";

constexpr uint64_t kObjects = 16;
// The index takes at most so much for each mapping, and a little for an empty store.
constexpr uint64_t kMaxBytesPerMapping = 100;
constexpr uint64_t kEmptyBytes = 1 << 20;

class Fragments {
 public:
  Fragments(uint64_t mappings, uint64_t seed)
      : each_(mappings / kObjects), random_(seed), bytes_(kDataBytes, 0x5a) {
    const auto blocks = static_cast<uint32_t>(mappings / 2048 + 64);
    auto made = Store::create(std::make_unique<medium::DiscardBackend>(2048 * kChunkBytes, blocks),
                              {}, random_);
    if (made.has_value()) store_ = std::move(*made);
  }

  bool run() {
    if (store_ == nullptr) return complain("no store");
    if (!timed("written, in random order", kObjects * each_, [this] { return write(); })) {
      return false;
    }
    if (!check_index(kObjects * each_)) return false;
    if (!timed("overwritten", 20'000, [this] { return overwrite(); })) return false;
    if (!check_index(kObjects * each_)) return false;
    if (!timed("cloned", each_, [this] { return clone(); })) return false;
    if (!check_index((kObjects + 1) * each_)) return false;
    if (!timed("removed", (kObjects + 1) * each_, [this] { return remove(); })) return false;
    const SpaceInfo space = store_->space();
    if (space.used != 0 || space.mappings != 0) return complain("not all of it is free again");
    return true;
  }

 private:
  static bool complain(const char* what) {
    std::printf("FAIL: %s\n", what);
    return false;
  }
  static ObjectId object(uint64_t i) { return {.high = 3, .low = i + 1}; }

  template <typename F>
  bool timed(const char* what, uint64_t count, const F& f) {
    const auto begin = std::chrono::steady_clock::now();
    const bool good = f();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%10llu mappings %-26s %8.3f s, %8.0f ns each\n",
                static_cast<unsigned long long>(count), what, seconds,
                seconds * 1e9 / static_cast<double>(count));
    return good || complain(what);
  }

  bool check_index(uint64_t mappings) {
    const SpaceInfo space = store_->space();
    std::printf("%10llu mappings take %llu bytes of index, %.1f each\n",
                static_cast<unsigned long long>(space.mappings),
                static_cast<unsigned long long>(space.index_bytes),
                static_cast<double>(space.index_bytes) / static_cast<double>(space.mappings));
    if (space.mappings != mappings) return complain("another number of mappings");
    if (space.index_bytes > kEmptyBytes + mappings * kMaxBytesPerMapping) {
      return complain("the index takes more than is promised");
    }
    return true;
  }

  // Every other chunk: none is beside one that it could be joined with.
  bool write() {
    for (uint64_t i = 0; i < kObjects; ++i) {
      if (!store_->create_object(object(i)).has_value()) return false;
      std::vector<uint32_t> order(each_);
      for (uint32_t k = 0; k < each_; ++k) {
        const uint64_t at = random_.below(k + 1);
        order[k] = order[at];
        order[at] = k;
      }
      for (const uint32_t k : order) {
        if (!store_->write(object(i), 2 * uint64_t{k} * kDataBytes, bytes_).has_value()) {
          return false;
        }
      }
    }
    return true;
  }
  bool overwrite() {
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t index = 2 * random_.below(each_);
      const auto written =
          store_->write(object(random_.below(kObjects)), index * kDataBytes, bytes_);
      if (!written.has_value()) return false;
    }
    return true;
  }
  bool clone() {
    CloneRequest request;
    request.from = object(0);
    request.to = object(kObjects);
    return store_->clone(request).has_value();
  }
  bool remove() {
    for (uint64_t i = 0; i <= kObjects; ++i) {
      if (!store_->remove(object(i)).has_value()) return false;
    }
    return store_->flush().has_value();
  }

  const uint64_t each_;
  SeededRandom random_;
  const std::vector<uint8_t> bytes_;
  std::unique_ptr<Store> store_;
};

// The bound that the user sets holds as well.
bool check_bound() {
  SeededRandom random(1);
  Options options;
  options.max_mappings = 1000;
  auto made = Store::create(std::make_unique<medium::DiscardBackend>(64 * kChunkBytes, 100),
                            options, random);
  if (!made.has_value()) return false;
  Store& store = **made;
  const ObjectId id{.high = 1, .low = 1};
  const std::vector<uint8_t> bytes(kDataBytes);
  if (!store.create_object(id).has_value()) return false;
  uint64_t written = 0;
  Refusal refusal;
  for (; written < 2000 && !refusal.has_value(); ++written) {
    const auto result = store.write(id, 2 * written * kDataBytes, bytes);
    if (!result.has_value()) refusal = result.error().code;
  }
  const bool refused_in_time = refusal == Code::kFull && store.space().mappings <= 1000;
  const bool goes_on = store.truncate(id, 0).has_value() && store.write(id, 0, bytes).has_value();
  if (!refused_in_time || !goes_on) std::printf("FAIL: the bound on mappings does not hold\n");
  return refused_in_time && goes_on;
}

}  // namespace
}  // namespace verbena::store::trial

int main(int argc, char** argv) {
  using namespace verbena::store::trial;
  Arguments arguments{.numbers = {{"mappings", 200'000}, {"seed", 1}}, .flags = {}, .words = {}};
  if (!parse(argc, argv, kHelp, arguments)) return 2;
  const bool bounded = check_bound();
  return Fragments(arguments.numbers["mappings"], arguments.numbers["seed"]).run() && bounded ? 0
                                                                                              : 1;
}
