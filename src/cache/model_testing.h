// SPDX-License-Identifier: Apache-2.0
// For tests: a cache against a model. Any order of operations, faults between it and what is
// behind, crashes here, a memory far below the data, and objects that are larger than it. One seed
// is one history.
#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "cache/cache_testing.h"
#include "store/drafts.h"

namespace verbena::cache {

class CacheModelTest : public CacheTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  using CacheTest::CacheTest;
  using Model = std::map<std::string, Bytes>;

  // Rounds of operations and faults; after each, all of it from here, and then from behind alone or
  // after a crash.
  void run(uint64_t seed, int rounds);

 private:
  // More than the store has room for.
  static constexpr uint64_t kLarge = uint64_t{kPerBlock} * kBlocks * store::kDataBytes;

  // What needs something from behind may fail with it, and then changes nothing.
  template <typename Done>
  static bool fine(const Done& done) {
    if (done) return true;
    EXPECT_TRUE(done.error().code == Code::kIo || done.error().code == Code::kFull)
        << done.error().what;
    return false;
  }
  uint64_t below(uint64_t n) { return random_of_history_.below(n); }
  std::string draw_name() { return "o" + std::to_string(below(8)); }

  void write(Bytes& bytes, ObjectId id) {
    const uint64_t offset = below(400'000);
    const Bytes news = pattern(1 + below(100'000), random_of_history_.next());
    if (!fine(cache_->run([&] { return store_->write(id, offset, news); }))) return;
    bytes.resize(std::max<size_t>(bytes.size(), offset + news.size()));
    std::ranges::copy(news, bytes.begin() + static_cast<ptrdiff_t>(offset));
  }
  void rename(Model& model, const std::string& name, const std::string& other) {
    if (model.contains(other) || !fine(cache_->rename(id_of(name), other))) return;
    auto moved = model.extract(name);
    moved.key() = other;
    model.insert(std::move(moved));
  }
  // Of another object, which is gone then.
  void replace(Model& model, const std::string& name, const std::string& by) {
    if (name == by || !model.contains(by)) return;
    if (!fine(cache_->replace(id_of(name), id_of(by), store::kNoClient))) return;
    model[name] = std::move(model.extract(by).mapped());
  }
  void clone(Model& model, const std::string& name, const std::string& other) {
    if (model.contains(other)) return;
    const ObjectId to{1, ++last_id_};
    const store::CloneRequest request{.from = id_of(name), .to = to, .to_name = other};
    if (fine(cache_->clone(request, store::kNoClient))) model[other] = Bytes(model[name]);
  }
  // As clients do: a draft is written, and then becomes the object.
  void put_whole(Model& model, const std::string& name) {
    const uint64_t size = below(12) == 0 ? kLarge + below(kLarge / 2) : below(100'000);
    const ObjectId draft{store::kDraftHigh, random_of_history_.next()};
    const Bytes news = pattern(size, random_of_history_.next());
    if (!fine(cache_->run([&] { return store_->create_object(draft); }))) return;
    bool done = true;
    for (size_t at = 0; done && at < news.size(); at += kPiece) {
      const auto part = std::span(news).subspan(at, std::min(kPiece, news.size() - at));
      done = fine(cache_->run([&] { return store_->write(draft, at, part); }));
    }
    if (done && model.contains(name)) {
      done = fine(cache_->replace(id_of(name), draft, store::kNoClient));
    } else if (done) {
      const ObjectId to{1, ++last_id_};
      const store::CloneRequest request{.from = draft, .to = to, .to_name = name};
      done = fine(cache_->clone(request, store::kNoClient));
    }
    if (done) model[name] = news;
    // It is gone if it has replaced the object.
    static_cast<void>(cache_->remove(draft));
  }
  void read_some(const Bytes& bytes, ObjectId id) {
    const uint64_t offset = below(bytes.size() + 1);
    Bytes got(std::min<uint64_t>(kPiece, bytes.size() - offset));
    if (!fine(cache_->run([&] { return store_->read(id, offset, got); }))) return;
    EXPECT_TRUE(std::ranges::equal(got, std::span(bytes).subspan(offset, got.size())));
  }

  // Something that changes what others see, or where it is.
  void change(Model& model) {
    const std::string name = draw_name();
    const auto found = model.find(name);
    if (found == model.end()) {
      if (below(3) == 0) return put_whole(model, name);
      const ObjectId id{1, ++last_id_};
      const auto made = cache_->run([&] { return store_->create_object(id, name); });
      if (fine(made)) model[name] = {};
      return;
    }
    Bytes& bytes = found->second;
    const ObjectId id = id_of(name);
    switch (below(15)) {
      case 0:
      case 1:
      case 2: return write(bytes, id);
      case 3: {
        const uint64_t size = below(500'000);
        if (fine(cache_->run([&] { return store_->truncate(id, size); }))) bytes.resize(size);
        return;
      }
      case 4: {
        if (fine(cache_->remove(id))) model.erase(name);
        return;
      }
      case 5:
      case 6:  return rename(model, name, draw_name());
      case 7:
      case 8:  return clone(model, name, draw_name());
      case 9:  return put_whole(model, name);
      case 10: return replace(model, name, draw_name());
      case 11: return static_cast<void>(fine(cache_->flush(id)));
      case 12: return static_cast<void>(fine(cache_->flush_all()));
      case 13: return static_cast<void>(fine(cache_->evict(id)));
      default: return read_some(bytes, id);
    }
  }
  bool is_there(const Model& model) {
    size_t count = 0;
    const auto listed = store_->list({}, 1000);
    for (const auto& info : *listed) count += store::is_hidden(info.id) ? 0 : 1;
    if (count != model.size()) return false;
    return std::ranges::all_of(model, [&](const auto& object) {
      return store_->find(object.first).has_value() && get(object.first) == object.second;
    });
  }
  // The process is killed in the middle of something: it was done, or not at all.
  void change_and_be_killed(Model& model) {
    ASSERT_TRUE(store_->flush());
    Model after = model;
    tier_.set({.lost_answer_ppm = 200'000, .calls = below(25)});
    change(after);
    tier_.set({});  // opening needs what is behind
    kill();
    if (HasFatalFailure()) return;
    if (is_there(after)) {
      model = std::move(after);
    } else {
      ASSERT_TRUE(is_there(model)) << "neither as before nor as after";
    }
    tier_.set(faults_);
  }
  void step(Model& model) {
    switch (below(30)) {
      case 0:  return change_and_be_killed(model);
      case 1:  return static_cast<void>(cache_->evict_all());
      default: return change(model);
    }
  }

  backend::TierFaults faults_;
  SeededRandom random_of_history_{0};
};

inline void CacheModelTest::run(uint64_t seed, int rounds) {
  random_of_history_ = SeededRandom(seed);
  Model model;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const auto some = [&] { return static_cast<uint32_t>(below(3) * 60'000); };
    faults_ = {
        .fail_ppm = some(), .full_ppm = some(), .lost_answer_ppm = 2 * some(), .short_ppm = some()};
    tier_.set(faults_);
    for (int i = 0; i < 60 && !HasFailure(); ++i) {
      SCOPED_TRACE("round " + std::to_string(round) + ", step " + std::to_string(i));
      step(model);
    }
    tier_.set({});
    for (const auto& [name, bytes] : model) ASSERT_TRUE(get(name) == bytes) << name;
    const auto flushed = cache_->flush_all();
    ASSERT_TRUE(flushed.has_value()) << flushed.error().what;
    if (below(2) == 0) {
      begin();
    } else {
      crash();
    }
    ASSERT_TRUE(is_there(model));
    // And nothing else is behind.
    ASSERT_TRUE(cache_->flush_all());
    size_t behind = 0;
    ASSERT_TRUE(tier_.list([&](const backend::Entry&) { return ++behind > 0; }));
    EXPECT_EQ(behind, model.size());
    const auto scrubbed = store_->scrub();
    ASSERT_TRUE(scrubbed.has_value());
    EXPECT_EQ(scrubbed->damaged, 0u);
  }
}

}  // namespace verbena::cache
