// SPDX-License-Identifier: Apache-2.0
#include "neighbours.h"

#include <iterator>

#include <fmt/format.h>

#include "operation.h"

namespace verbena::store::trial {
namespace {

class Beside {
 public:
  Beside(Store& store, Truth& truth, RandomSource& random)
      : store_(store), truth_(truth), random_(random) {
    const auto lost =
        std::next(truth.lost.begin(), static_cast<ptrdiff_t>(random.below(truth.lost.size())));
    id_ = lost->first.first;
    index_ = lost->first.second;
    chunk_ = lost->second;
    begin_ = index_ * kDataBytes;
    valid_ = std::min<uint64_t>(kDataBytes, truth.model.find(id_)->size - begin_);
  }

  std::string run() {
    std::string what = refused();
    if (what.empty()) what = check_contents(store_, truth_, random_);
    if (what.empty()) what = shared();
    if (what.empty()) what = healed();
    if (what.empty()) what = check_contents(store_, truth_, random_);
    return what;
  }

 private:
  [[nodiscard]] std::string must_fail(const Result<void>& result, const char* doing) const {
    if (result) return fmt::format("{} over the damage at {} goes well", doing, begin_);
    const std::string what = check_damage(result.error(), id_, index_, chunk_);
    return what.empty() ? what : fmt::format("{}: {}", doing, what);
  }

  std::string refused() {
    if (valid_ < 2) return {};
    const std::vector<uint8_t> bytes(2 * kDataBytes, 0x5a);
    // Behind the first byte of it, and before the last.
    const uint64_t inside = begin_ + 1 + random_.below(valid_ - 1);
    const uint64_t length = 1 + random_.below(std::min<uint64_t>(100, begin_ + valid_ - inside));
    std::string what =
        must_fail(store_.write(id_, inside, std::span(bytes).first(length)), "a write within");
    if (what.empty() && index_ > 0 && !truth_.lost.contains({id_, index_ - 1})) {
      const auto across = std::span(bytes).first(kDataBytes + 1 + random_.below(valid_ - 1));
      what = must_fail(store_.write(id_, begin_ - kDataBytes, across), "a write across");
    }
    if (what.empty()) what = must_fail(prepared(inside, length), "a prepared write");
    if (what.empty()) what = must_fail(store_.truncate(id_, inside), "a truncation");
    if (what.empty()) {
      const CloneRequest part{
          .from = id_, .to = {9, 9}, .from_offset = inside, .length = length, .to_name = {}};
      what = must_fail(store_.clone(part), "a clone of a part");
    }
    if (what.empty() && store_.stat({9, 9})) what = "a clone that failed has left an object";
    return what;
  }

  Result<void> prepared(uint64_t offset, uint64_t length) {
    auto write = store_.prepare_write(id_, offset, length);
    if (!write) return fail(write.error());
    scatter(write->pieces(), std::vector<uint8_t>(length, 0xa5));
    return write->commit({});
  }

  // A clone of the whole object shares what is lost with it.
  std::string shared() {
    const CloneRequest all{.from = id_, .to = {8, 8}, .to_name = {}};
    if (const auto done = store_.clone(all); !done) return "a clone: " + done.error().what;
    static_cast<void>(truth_.model.clone(all));
    for (auto lost = truth_.lost.lower_bound({id_, 0});
         lost != truth_.lost.end() && lost->first.first == id_; ++lost) {
      clone_lost_.push_back(*lost);
    }
    for (const auto& [where, chunk] : clone_lost_) truth_.lost[{{8, 8}, where.second}] = chunk;
    return {};
  }

  std::string healed() {
    const std::vector<uint8_t> bytes(kDataBytes, 0x77);
    // All that counts of it is enough.
    const auto enough = std::span(bytes).first(random_.below(2) == 0 ? kDataBytes : valid_);
    if (const auto done = store_.write(id_, begin_, enough); !done) {
      return "a write over all of it: " + done.error().what;
    }
    static_cast<void>(truth_.model.write(id_, begin_, enough));
    truth_.lost.erase({id_, index_});
    if (random_.below(2) == 0) return {};
    if (const auto done = store_.truncate({8, 8}, begin_); !done) return done.error().what;
    static_cast<void>(truth_.model.truncate({8, 8}, begin_));
    for (const auto& [where, chunk] : clone_lost_) {
      if (where.second >= index_) truth_.lost.erase({{8, 8}, where.second});
    }
    return {};
  }

  Store& store_;
  Truth& truth_;
  RandomSource& random_;
  ObjectId id_;
  uint64_t index_ = 0;
  uint64_t chunk_ = 0;
  uint64_t begin_ = 0;
  uint64_t valid_ = 0;
  std::vector<std::pair<std::pair<ObjectId, uint64_t>, uint64_t>> clone_lost_;
};

}  // namespace

std::string write_beside(Store& store, Truth& truth, RandomSource& random) {
  return Beside(store, truth, random).run();
}

}  // namespace verbena::store::trial
