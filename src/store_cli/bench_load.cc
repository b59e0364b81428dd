// SPDX-License-Identifier: Apache-2.0
#include "store_cli/bench_load.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/random.h"
#include "store_cli/draft.h"
#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

constexpr uint64_t kMaxSlots = 16'384;       // of a client
constexpr uint64_t kMaxFillBytes = 1 << 20;  // of one write before the measurement

[[nodiscard]] Time clock_now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// Random bytes, of which each content is a part: it costs nothing to make, and to compare.
class ContentPool {
 public:
  ContentPool(uint64_t size_bytes, uint64_t seed) : bytes_(size_bytes + kPlaces) {
    SeededRandom random(seed);
    for (size_t at = 0; at < bytes_.size(); at += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(&bytes_[at], &word, std::min(sizeof word, bytes_.size() - at));
    }
  }
  // Of a slot, when it was written for the `version`th time.
  [[nodiscard]] const uint8_t* content(uint64_t slot, uint64_t version) const {
    const uint64_t mixed = (slot * 0x9e3779b97f4a7c15 + version + 1) * 0xbf58476d1ce4e5b9;
    return &bytes_[(mixed >> 40) % kPlaces];
  }

 private:
  static constexpr size_t kPlaces = 1 << 16;
  std::vector<uint8_t> bytes_;
};

// What all threads share.
class LoadRun {
 public:
  LoadRun(const BenchLoad& wanted, uint32_t threads)
      : load(wanted), pool(wanted.size_bytes, wanted.seed), left_(wanted.count), ready_(threads) {}

  // All begin when the last is ready.
  void begin() {
    ready_.arrive_and_wait();
    Time none = 0;
    static_cast<void>(began_.compare_exchange_strong(none, clock_now()));
  }
  // Whether there is another request to be made.
  [[nodiscard]] bool take() {
    if (stopped_.load(std::memory_order_relaxed) || interrupted() != 0) return false;
    if (load.time > 0 && clock_now() - began_.load() >= load.time) return false;
    if (load.count == 0) return true;
    uint64_t left = left_.load(std::memory_order_relaxed);
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {}
    return left > 0;
  }
  void fail_with(const store::Error& error) {
    stopped_.store(true, std::memory_order_relaxed);
    const MutexLock lock(mutex_);
    if (!error_) error_ = error;
  }
  void add(const LatencyHistogram& reads, const LatencyHistogram& writes) {
    const Time ended = clock_now();
    const MutexLock lock(mutex_);
    result_.reads.add(reads);
    result_.writes.add(writes);
    result_.time = std::max(result_.time, ended - began_.load());
  }
  [[nodiscard]] store::Result<BenchResult> result() {
    const MutexLock lock(mutex_);
    if (error_) return fail(*error_);
    return result_;
  }
  [[nodiscard]] bool unreachable() {
    const MutexLock lock(mutex_);
    return error_ && error_->code == store::Code::kUnreachable;
  }

  const BenchLoad load;
  const ContentPool pool;

 private:
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> left_;
  std::atomic<Time> began_{0};
  std::latch ready_;
  Mutex mutex_;
  std::optional<store::Error> error_ VERBENA_GUARDED_BY(mutex_);
  BenchResult result_ VERBENA_GUARDED_BY(mutex_);
};

// One request at a time, on slots [first, first + versions_.size()) of an object.
class LoadWorker {
 public:
  LoadWorker(LoadRun& run, store::Objects& store, store::ObjectId object, uint64_t first,
             uint64_t slots, uint64_t seed)
      : run_(run),
        store_(store),
        object_(object),
        first_(first),
        versions_(slots),
        random_(seed),
        buffer_(run.load.size_bytes) {}

  void work() {
    const bool filled = fill();
    run_.begin();  // in any case: the others wait for it
    while (filled && run_.take()) {
      const uint64_t slot = random_.below(versions_.size());
      const bool is_read = random_.below(100) < run_.load.read_percent;
      const Time begin = clock_now();
      if (const auto done = is_read ? read(slot) : write(slot); !done) {
        run_.fail_with(done.error());
        break;
      }
      (is_read ? reads_ : writes_).add(clock_now() - begin);
    }
    run_.add(reads_, writes_);
  }

 private:
  // So that there is something to read.
  [[nodiscard]] bool fill() {
    const uint64_t size = run_.load.size_bytes;
    const uint64_t at_once = std::max<uint64_t>(1, kMaxFillBytes / size);
    std::vector<uint8_t> piece;
    for (uint64_t slot = 0; slot < versions_.size();) {
      const uint64_t begin = slot;
      const uint64_t end = std::min<uint64_t>(versions_.size(), slot + at_once);
      piece.resize((end - begin) * size);
      for (; slot < end; ++slot) {
        std::memcpy(&piece[(slot - begin) * size], run_.pool.content(first_ + slot, 0), size);
      }
      if (interrupted() != 0) return false;
      if (const auto done = store_.write(object_, (first_ + begin) * size, piece); !done) {
        run_.fail_with(done.error());
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] store::Result<void> write(uint64_t slot) {
    const uint8_t* const content = run_.pool.content(first_ + slot, versions_[slot] + 1);
    const auto done = store_.write(object_, offset_of(slot), {content, buffer_.size()});
    if (!done) return done;
    ++versions_[slot];
    return run_.load.flush ? store_.flush() : store::Result<void>{};
  }
  [[nodiscard]] store::Result<void> read(uint64_t slot) {
    const auto got = store_.read(object_, offset_of(slot), buffer_);
    if (!got) return fail(got.error());
    if (*got != buffer_.size()) {
      return fail(store::Error{
          store::Code::kDamaged,
          fmt::format("{} bytes at {} were read, not {}", *got, offset_of(slot), buffer_.size()),
          {}});
    }
    const uint8_t* const content = run_.pool.content(first_ + slot, versions_[slot]);
    if (run_.load.verify && std::memcmp(buffer_.data(), content, buffer_.size()) != 0) {
      return fail(store::Error{
          store::Code::kDamaged,
          fmt::format("{} bytes at {} are not what was written", *got, offset_of(slot)),
          {}});
    }
    return {};
  }
  [[nodiscard]] uint64_t offset_of(uint64_t slot) const {
    return (first_ + slot) * run_.load.size_bytes;
  }

  LoadRun& run_;
  store::Objects& store_;
  const store::ObjectId object_;
  const uint64_t first_;
  std::vector<uint64_t> versions_;
  SeededRandom random_;
  std::vector<uint8_t> buffer_;
  LatencyHistogram reads_;
  LatencyHistogram writes_;
};

}  // namespace

store::Result<BenchResult> run_load(std::span<store::Objects* const> clients,
                                    const BenchLoad& load) {
  const uint64_t wanted = std::min(load.span_bytes / load.size_bytes, kMaxSlots);
  const uint64_t slots_each = std::max<uint64_t>(1, wanted / load.depth);
  std::vector<Draft> objects;
  for (store::Objects* const client : clients) {
    auto object = Draft::empty(*client);
    if (!object) return fail(object.error());
    objects.push_back(std::move(*object));
  }
  LoadRun run(load, static_cast<uint32_t>(clients.size()) * load.depth);
  {
    std::vector<std::unique_ptr<LoadWorker>> workers;
    std::vector<std::jthread> threads;
    for (size_t client = 0; client < clients.size(); ++client) {
      for (uint32_t i = 0; i < load.depth; ++i) {
        const uint64_t seed = load.seed * 1'000'003 + workers.size();
        workers.push_back(std::make_unique<LoadWorker>(run, *clients[client], objects[client].id(),
                                                       i * slots_each, slots_each, seed));
      }
    }
    for (const auto& worker : workers) threads.emplace_back([&worker] { worker->work(); });
  }
  if (run.unreachable()) {
    for (Draft& object : objects) object.leave();
  }
  return run.result();
}

}  // namespace verbena::store_cli
