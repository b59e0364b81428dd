// SPDX-License-Identifier: Apache-2.0
#include "crash_threads_run.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "compare.h"
#include "crash_images.h"
#include "medium/faulty_backend.h"
#include "model.h"
#include "operation.h"
#include "recording_backend.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr uint64_t kOwnIds = 10;  // ids of thread t have a high from kOwnIds * (t + 1) on
constexpr Effort kFewImages{.singles = 1, .chunk_sets = 2, .line_sets = 1, .samples = 1, .torn = 1};
constexpr Profile kWork{.objects = 4,
                        .object_bytes = 40'000,
                        .write_bytes = 16'000,
                        .sparse_bytes = 0,
                        .flush_per_mille = 120,
                        .checkpoint_per_mille = 10,
                        .nonsense_per_mille = 10};

// One number for what a user sees of the objects of one thread.
class Digest {
 public:
  void add(ObjectId id, const std::string& name, std::span<const uint8_t> bytes) {
    for (const uint64_t word :
         {id.high, id.low, uint64_t{bytes.size()}, uint64_t{std::hash<std::string>{}(name)},
          uint64_t{std::hash<std::string_view>{}(
              {reinterpret_cast<const char*>(bytes.data()), bytes.size()})}}) {
      value_ = (value_ ^ word) * 0x9e3779b97f4a7c15;
      value_ ^= value_ >> 29;
    }
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 1;
};

uint64_t digest_of(const Model& model) {
  Digest digest;
  for (const auto& [id, object] : model.objects()) {
    digest.add(id, object.name, model.read(id, 0, object.size));
  }
  return digest.value();
}

// Ids and names that no other thread has.
Operation made_own(Operation operation, uint32_t thread) {
  for (ObjectId* id : {&operation.id, &operation.to}) {
    if (id->high < kOwnIds) id->high += kOwnIds * (thread + 1);
  }
  if (operation.name.starts_with("n")) operation.name[0] = static_cast<char>('A' + thread);
  return operation;
}

// How far each thread is.
using Places = std::vector<size_t>;
// A power cut leaves of each thread's changes at least those that are acknowledged, and no more
// than were begun.
struct Snapshot {
  Places acknowledged;
  Places begun;
};

class ThreadsRun {
 public:
  ThreadsRun(uint64_t seed, const CrashThreadsOptions& options)
      : seed_(seed),
        options_(options),
        random_(seed),
        marks_(~seed),
        shape_(draw_shape(random_)),
        medium_(shape_, seed),
        states_(options.threads, std::vector<State>(1)),
        completed_(options.threads),
        now_{Places(options.threads), Places(options.threads)} {
    store_options_.durability = random_.below(4) == 0 ? Durability::kEach : Durability::kFlush;
    if (random_.below(2) == 0) store_options_.flush_bytes = 64 * 1024;
    store_options_.on_due = [this] { due_ = true; };
    store_options_.now_ns = [this] { return clock_ns_ += 1000; };
    store_options_.random = [this] { return marks_.next(); };
    // Others come in between wherever it waits for the medium.
    faults_.before_sync = [this] {
      if (const uint64_t turn = syncs_++; turn % 3 == 0) {
        std::this_thread::yield();
      } else if (turn % 31 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    };
  }

  CrashThreadsResult run() {
    auto backend = std::make_unique<medium::FaultyBackend>(medium_.open_backend(), faults_);
    auto created = Store::create(std::move(backend), store_options_);
    if (!created) {
      result_.violation = "creating: " + created.error().what;
      return std::move(result_);
    }
    store_ = std::move(*created);
    snapshots_.push_back(now_);
    medium_.mark(0, 1);
    if (seed_ % 4 == 3) {
      const bool after = random_.below(2) == 0;
      faults_.fence.arm(1 + random_.below(60), after);
    }
    if (seed_ % 4 == 2) faults_.allocate.arm(5 + random_.below(20), true);
    work();
    if (result_.violation.empty()) end();
    if (result_.violation.empty()) look_back();
    return std::move(result_);
  }

 private:
  struct State {
    Model model;
    std::optional<uint64_t> digest;
  };

  static MediumShape draw_shape(RandomSource& random) {
    MediumShape shape;
    shape.chunks_per_block = random.below(2) == 0 ? 16 : 64;
    shape.blocks =
        (shape.chunks_per_block == 16 ? 30 : 10) + static_cast<uint32_t>(random.below(12));
    return shape;
  }

  void violated(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (result_.violation.empty()) result_.violation = what;
    stop_ = true;
  }

  // --- while the store works

  void work() {
    std::vector<std::thread> workers;
    for (uint32_t t = 0; t < options_.threads; ++t) {
      workers.emplace_back([this, t] { change(t); });
    }
    std::thread tender([this] { tend(); });
    std::thread upkeep([this] { upkeep_beside(); });
    for (std::thread& worker : workers) worker.join();
    stop_ = true;
    tender.join();
    upkeep.join();
  }

  // What a medium that fails on purpose may be the reason of.
  [[nodiscard]] bool excused(Code code) const {
    return seed_ % 4 == 3 && (code == Code::kIo || code == Code::kReadOnly);
  }

  void change(uint32_t t) {
    SeededRandom random(seed_ * 101 + t);
    for (uint32_t i = 0; i < options_.operations && !stop_; ++i) {
      const Model& before = states_[t].back().model;
      const Operation operation = made_own(draw(random, before, kWork), t);
      Model next = before;
      const Refusal expected = apply(next, operation);
      const Places done = begin(t, operation, expected ? Model(before) : std::move(next));
      std::string why;
      const Refusal actual = apply(*store_, operation, &why);
      if (actual && excused(*actual)) return;
      if (actual == Code::kFull) {
        undo(t);
      } else if (actual != expected) {
        return violated("thread " + std::to_string(t) + ": " + describe(operation) + " was " +
                        describe(actual) + " (" + why + "), not " + describe(expected));
      }
      complete(t, done, !actual && makes_durable(operation));
    }
  }

  // What all of them have done so far.
  Places begin(uint32_t t, const Operation& operation, Model&& next) {
    const std::lock_guard lock(mutex_);
    states_[t].push_back({.model = std::move(next), .digest = {}});
    ++now_.begun[t];
    ++result_.operations;
    result_.trace.push_back(std::to_string(t) + ": " + describe(operation));
    note();
    return completed_;
  }
  void undo(uint32_t t) {
    const std::lock_guard lock(mutex_);
    states_[t].back().model = states_[t][states_[t].size() - 2].model;
  }
  void complete(uint32_t t, const Places& done, bool flushed) {
    const std::lock_guard lock(mutex_);
    completed_[t] = states_[t].size() - 1;
    if (flushed) acknowledge(done);
    if (store_options_.durability == Durability::kEach) acknowledge(t, completed_[t]);
    note();
  }
  void acknowledge(const Places& done) {
    for (uint32_t t = 0; t < options_.threads; ++t) acknowledge(t, done[t]);
  }
  void acknowledge(uint32_t t, size_t place) {
    now_.acknowledged[t] = std::max(now_.acknowledged[t], place);
  }
  void note() {
    snapshots_.push_back(now_);
    medium_.mark(static_cast<uint32_t>(snapshots_.size() - 1), 1);
  }

  void tend() {
    while (!stop_) {
      if (!due_.exchange(false)) {
        std::this_thread::yield();
        continue;
      }
      const auto done = store_->tend();
      if (!done && !excused(done.error().code)) violated("tend: " + done.error().what);
    }
  }

  void upkeep_beside() {
    SeededRandom random(seed_ * 101 + 99);
    while (!stop_) {
      switch (random.below(5)) {
        case 0:
        case 1:  durable_beside(result_.checkpoints, [this] { return store_->checkpoint(); }); break;
        case 2:  durable_beside(result_.compactions, [this] { return store_->compact(); }); break;
        case 3:  scrub(*store_, "beside"); break;
        default: look_at_all();
      }
    }
  }
  template <typename Call>
  void durable_beside(uint64_t& count, Call call) {
    const Places done = [this] {
      const std::lock_guard lock(mutex_);
      return completed_;
    }();
    const auto result = call();
    if (!result) {
      const Code code = result.error().code;
      if (code != Code::kFull && !excused(code)) violated("upkeep: " + result.error().what);
      return;
    }
    const std::lock_guard lock(mutex_);
    ++count;
    acknowledge(done);
    note();
  }
  void scrub(Store& store, const std::string& when) {
    const auto found = store.scrub();
    if (!found) {
      if (!excused(found.error().code)) violated(when + ", scrub: " + found.error().what);
      return;
    }
    if (found->damaged == 0) return;
    violated(when + ", scrub finds damage: " + found->damage.front().field + " at chunk " +
             std::to_string(found->damage.front().chunk));
  }
  void look_at_all() {
    const auto listed = store_->list({}, SIZE_MAX);
    if (!listed) return violated("list: " + listed.error().what);
    for (const ObjectInfo& info : *listed) {
      const auto read = store_->prepare_read(info.id, 0, info.size);
      if (!read) continue;  // it is gone
      if (crc(gather(read->pieces())) != read->crc()) violated("prepared read: wrong bytes");
    }
  }

  // --- afterwards

  // Killed, or closed, which makes everything durable if the medium does not fail, and opened.
  void end() {
    const bool failed = faults_.fence.fail_at != 0;
    Snapshot allowed = now_;
    if (random_.below(2) == 0 || failed) {
      const auto closed = store_->close();
      if (!closed && !failed) return violated("closing: " + closed.error().what);
      if (closed) allowed.acknowledged = allowed.begun;
    } else {
      medium_.kill();
      faults_.allocate.disarm();
      remove_all();  // on the memory of the process that was killed
    }
    store_.reset();
    const auto opened = Store::open(medium_.open_backend(), store_options_);
    if (!opened) return violated("at the end, not opened: " + opened.error().what);
    match(**opened, allowed, "at the end");
    scrub(**opened, "at the end");
    medium_.kill();
  }

  // However full it is.
  void remove_all() {
    const auto listed = store_->list({}, SIZE_MAX);
    for (const ObjectInfo& info : *listed) {
      const auto removed = store_->remove(info.id);
      if (!removed) return violated("at the end, remove: " + removed.error().what);
    }
    const auto done = store_->checkpoint();
    if (!done) return violated("at the end, all removed, checkpoint: " + done.error().what);
    if (store_->space().used != 0) violated("at the end, all removed, chunks are in use");
  }

  void look_back() {
    const Recording recording = medium_.recording();
    uint64_t moments = 0;
    for (Walk walk(recording); walk.next();) ++moments;
    RecordingMedium after(shape_, seed_);
    Walk walk(recording);
    while (result_.violation.empty() && walk.next()) {
      if (random_.below(moments) >= options_.moments) continue;
      if (walk.mark().count == 0) continue;  // there is no store yet
      const Snapshot allowed = snapshots_[walk.mark().first];
      static_cast<void>(
          for_each_image(walk, kFewImages, random_, [&](Image&& image, const std::string& how) {
            ++result_.images;
            look(after, image, allowed, how);
            return result_.violation.empty();
          }));
    }
  }

  void look(RecordingMedium& after, const Image& image, const Snapshot& allowed,
            const std::string& how) {
    after.restore(image, false);
    auto opened = Store::open(after.open_backend(), store_options_);
    if (!opened) {
      const Damage& damage = opened.error().damage;
      return violated("not recovered: " + opened.error().what + " (" + damage.expected + "; " +
                      damage.actual + "); image: " + how);
    }
    match(**opened, allowed, "power cut, image: " + how);
    if (random_.below(4) != 0 || !result_.violation.empty()) return;
    scrub(**opened, "after a power cut");
    const auto compacted = (*opened)->compact();
    if (!compacted && compacted.error().code != Code::kFull) {
      return violated("after a power cut, compact: " + compacted.error().what);
    }
    match(**opened, allowed, "power cut, then compacted; image: " + how);
  }

  void match(const Store& store, const Snapshot& allowed, const std::string& when) {
    std::map<uint32_t, Digest> seen;
    std::vector<ObjectInfo> listed = *store.list({}, SIZE_MAX);
    std::ranges::sort(listed, {}, &ObjectInfo::id);
    std::vector<uint8_t> bytes;
    for (const ObjectInfo& info : listed) {
      bytes.resize(info.size);
      const auto got = store.read(info.id, 0, bytes);
      if (!got) return violated(when + ": " + got.error().what);
      seen[static_cast<uint32_t>(info.id.high / kOwnIds) - 1].add(info.id, info.name, bytes);
    }
    for (uint32_t t = 0; t < options_.threads; ++t) {
      if (place_of(t, seen[t].value(), allowed)) continue;
      violated(when + ": objects of thread " + std::to_string(t) + " are at none of " +
               std::to_string(allowed.acknowledged[t]) + " to " + std::to_string(allowed.begun[t]));
    }
  }
  std::optional<size_t> place_of(uint32_t t, uint64_t digest, const Snapshot& allowed) {
    for (size_t i = allowed.begun[t] + 1; i-- > allowed.acknowledged[t];) {
      State& state = states_[t][i];
      if (!state.digest) state.digest = digest_of(state.model);
      if (*state.digest == digest) return i;
    }
    return {};
  }

  const uint64_t seed_;
  const CrashThreadsOptions& options_;
  SeededRandom random_;
  SeededRandom marks_;  // of the store
  const MediumShape shape_;
  Options store_options_;
  std::atomic<uint64_t> clock_ns_ = 0;
  std::atomic<uint64_t> syncs_ = 0;
  std::atomic<bool> due_ = false;
  std::atomic<bool> stop_ = false;
  medium::Faults faults_;
  RecordingMedium medium_;
  std::unique_ptr<Store> store_;
  std::mutex mutex_;  // guards what follows while there are threads; before the medium's
  std::vector<std::vector<State>> states_;  // of each thread, after each of its operations
  Places completed_;
  Snapshot now_;
  std::vector<Snapshot> snapshots_;  // the medium's marks are places in it
  CrashThreadsResult result_;
};

}  // namespace

CrashThreadsResult run_crash_threads(uint64_t seed, const CrashThreadsOptions& options) {
  return ThreadsRun(seed, options).run();
}

}  // namespace verbena::store::trial
