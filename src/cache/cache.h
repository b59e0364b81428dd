// SPDX-License-Identifier: Apache-2.0
// A store in front of a tier: what is new here is written behind, what is there is fetched when it
// is wanted, and what is in both leaves when there is no room.
//
//   changes -> Store --- flush (timer, much unflushed, asked for) ---> Tier
//   reads   <- Store <-- load on a miss, with read-ahead ------------- Tier
//                 `----- evict: parts that are in both, S3-FIFO
//
// Every object behind is known to the store, without its bytes: names, sizes and lists need nothing
// from there. Removals and renames are noted (graves.h) and done behind later: an object that was
// renamed, or has replaced another one, is behind under its old key until it is flushed. A flush
// that fails leaves the object unflushed, and is tried again.
//
// Thread-safe; all calls may wait for the tier, but for used().
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

#include "backend/tier.h"
#include "base/mutex.h"
#include "base/time.h"
#include "cache/busy.h"
#include "cache/eviction_queue.h"
#include "cache/graves.h"
#include "cache/streams.h"
#include "store/store.h"

namespace verbena::cache {

using store::Error;
using store::Result;

// Parts that are fetched and evicted together.
inline constexpr uint64_t kSegmentParts = 64;

struct Options {
  // Chunks of data that may be here; 0: as many as the store has room for.
  uint64_t max_chunks = 0;
  // How long a change is only here, at most, if all is well; 0: until it is asked for, or must be.
  Duration flush_after = 5 * kSecond;
  // Objects that are flushed at the same time.
  uint32_t flushers = 4;
  // Segments that are fetched ahead of one who reads in order, and by how many threads.
  uint64_t read_ahead = 16;
  uint32_t readers = 2;
  store::RandomNumbers random{};
  // For people: what they should know of.
  std::function<void(const std::string&)> tell{};
};

enum class Counter : uint8_t {
  kLoads,
  kAheadLoads,  // of these, before they were wanted
  kLoadedParts,
  kFlushes,
  kFlushedParts,
  kFailedFlushes,
  kEvictedChunks,
  kAdopted,  // objects that others have put or changed behind
  kLost,     // that others have removed there
  kCount,
};

class Cache {
 public:
  // The store was opened with Options::cache. Both outlive this.
  Cache(store::Store& store, backend::Tier& tier, Options options);
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache();  // stops; what is unflushed stays so

  // Makes the objects behind known. Before all else.
  [[nodiscard]] Result<void> open();
  // From here on flushes, evicts and reads ahead by itself.
  void start();
  void stop();

  // --- for what fails with kBehind and kFull; then it is tried again.
  [[nodiscard]] Result<void> load(const store::Parts& parts);
  // Evicts about so many chunks, having flushed if it must.
  [[nodiscard]] Result<void> make_room(uint64_t chunks);
  // Runs an operation until it needs nothing from behind, nor more room.
  template <typename Op>
  auto run(Op op) -> decltype(op());

  // --- what must be done here rather than in the store, because it concerns what is behind.
  [[nodiscard]] Result<void> remove(ObjectId id);
  [[nodiscard]] Result<void> rename(ObjectId id, std::string_view name);
  [[nodiscard]] Result<void> replace(ObjectId id, ObjectId by, store::ClientId client);
  // A whole object of which most is only behind is copied there, and nothing of it comes here.
  [[nodiscard]] Result<void> clone(const store::CloneRequest& request, store::ClientId client);

  // All that was changed before it is behind, durable.
  [[nodiscard]] Result<void> flush(ObjectId id);
  [[nodiscard]] Result<void> flush_all();
  // Gives back the memory of what is in both; chunks.
  [[nodiscard]] Result<uint64_t> evict(ObjectId id);
  uint64_t evict_all();

  // Bytes of it were read or written. Cheap.
  void used(ObjectId id, uint64_t offset, uint64_t length);

  [[nodiscard]] uint64_t counter(Counter counter) const {
    return counters_.at(static_cast<size_t>(counter)).load(std::memory_order_relaxed);
  }
  // That it knows of: those that are here, and some that were.
  [[nodiscard]] size_t segments() {
    const MutexLock lock(mutex_);
    return queue_.size();
  }
  [[nodiscard]] const backend::Tier& tier() const { return tier_; }

 private:
  // --- flush.cc
  [[nodiscard]] Result<void> flush_before(ObjectId id, std::vector<ObjectId>& waiting);
  [[nodiscard]] Result<void> flush_once(ObjectId id, bool* again);
  [[nodiscard]] Result<void> flush_drafts();
  [[nodiscard]] std::set<ObjectId> all_unflushed();
  [[nodiscard]] Result<void> flush_listed(ObjectId id);
  // A tier that takes nothing is tried with so many objects in a row, and with others the next
  // time: those that never work are not in the way of the rest.
  static constexpr uint32_t kMaxFailures = 8;
  template <typename Some>
  void begin_elsewhere(std::vector<Some>& all) const {
    if (all.empty()) return;
    const auto by = static_cast<ptrdiff_t>(turn_.load(std::memory_order_relaxed) % all.size());
    std::ranges::rotate(all, all.begin() + by);
  }
  [[nodiscard]] bool is_gone(ObjectId id) const;
  [[nodiscard]] Result<void> write_behind(const store::PreparedFlush& plan,
                                          backend::Update& update);
  [[nodiscard]] Result<std::optional<uint64_t>> find_base(const store::PreparedFlush& plan,
                                                          const backend::Key& key, bool* again);
  [[nodiscard]] Result<std::optional<backend::Source>> find_source(const store::PreparedFlush& plan,
                                                                   bool* again);
  [[nodiscard]] Result<uint64_t> draw_version();
  void note_flushed(const store::PreparedFlush& plan);
  // --- load.cc
  // Of a thread that fetches them.
  struct Claim {
    std::list<Streams::Range>::iterator place;
    Streams::Range range;
  };
  [[nodiscard]] const Streams::Range* find_loading(const Streams::Range& range) const
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Claim claim_segments(Streams::Range range) VERBENA_REQUIRES(mutex_);
  enum class Wanted : uint8_t { kNow, kPerhaps };
  [[nodiscard]] Result<uint64_t> load_segments(const Claim& claim, Wanted wanted);
  [[nodiscard]] Result<void> free_evicted();
  [[nodiscard]] Result<void> make_some_room(uint64_t chunks);
  [[nodiscard]] Result<uint64_t> fetch(store::PreparedFill& fill, ObjectId id);
  [[nodiscard]] Result<void> changed_behind(ObjectId id, const backend::State& there);
  [[nodiscard]] uint64_t max_at_once() const;
  void want_ahead(const Streams::Range& range) VERBENA_REQUIRES(mutex_);
  void read_ahead();
  // For what needs all of an object here at once: whether there can ever be room for that.
  [[nodiscard]] Result<void> check_fits(const store::ObjectInfo& object) const;
  void count_loaded(ObjectId id, uint64_t first, uint64_t parts);
  // --- cache.cc
  [[nodiscard]] Result<void> meet_unknown(const backend::Entry& entry,
                                          std::unordered_set<uint64_t>& numbers);
  [[nodiscard]] Result<void> meet(const backend::Entry& entry,
                                  std::unordered_set<uint64_t>& numbers);
  [[nodiscard]] Result<void> note_here(const store::ObjectInfo& info);
  [[nodiscard]] Result<void> look_at_known(const std::unordered_set<uint64_t>& there);
  void count(Counter counter, uint64_t n = 1) {
    counters_.at(static_cast<size_t>(counter)).fetch_add(n, std::memory_order_relaxed);
  }
  // --- places.cc: which object is behind under which key.
  // Each of them once, with the objects kept busy only during that: who waits for the tier or for
  // room meanwhile may have to flush these very objects.
  [[nodiscard]] Result<void> remove_once(ObjectId id);
  [[nodiscard]] Result<void> rename_once(ObjectId id, std::string_view name);
  [[nodiscard]] Result<void> replace_once(ObjectId id, ObjectId by, store::ClientId client);
  // What may be behind under its own key is about to be no object's, or only the user's.
  [[nodiscard]] Result<void> leave_own_key(const store::ObjectInfo& info,
                                           const store::PlaceBehind& place, ObjectId user)
      VERBENA_REQUIRES(places_);
  [[nodiscard]] Result<void> clone_once(const store::CloneRequest& request, store::ClientId client);
  [[nodiscard]] Result<void> copy_behind(const store::CloneRequest& request);
  [[nodiscard]] Result<void> copy_behind_once(const store::CloneRequest& request, bool* again);
  // Whether the object is behind under this key, which is not its own.
  [[nodiscard]] bool uses(ObjectId id, const backend::Key& key) const;
  // Whether what the grave is of is an object's own after all.
  [[nodiscard]] bool is_own(const Grave& grave) const;
  [[nodiscard]] bool covers(const backend::Key& key, uint64_t version) const;
  // What is under the object's own key, and is to go, is replaced by its next version instead.
  [[nodiscard]] Result<void> replace_what_goes(ObjectId id);
  // So that nothing of others is behind under this key. Those that are flushed only after that
  // wait.
  [[nodiscard]] Result<void> free_key(const backend::Key& key, std::vector<ObjectId>& waiting);
  [[nodiscard]] Result<void> set_aside(ObjectId user, const backend::Key& key);
  [[nodiscard]] Result<void> lose_place(ObjectId user, const backend::Key& key,
                                        const Result<backend::State>& there);
  // Whether an object is not yet behind where it belongs.
  [[nodiscard]] bool is_due(ObjectId id) const;
  // Does nothing while an object uses what is there.
  [[nodiscard]] Result<void> bury(const Grave& grave);
  [[nodiscard]] Result<void> bury_all();
  void tell(const std::string& what) const;
  void work();
  void flush_due();
  void evict_due();
  void forget_gone();
  [[nodiscard]] uint64_t max_chunks() const;
  [[nodiscard]] uint64_t evict_some(uint64_t chunks);

  store::Store& store_;
  backend::Tier& tier_;
  Options options_;
  Graves graves_;
  BusyObjects busy_;
  // One at a time: an object gets or leaves a key, or it is decided that nobody has it. Taken after
  // the objects are busy, and not while the tier is waited for.
  Mutex places_;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Counter::kCount)> counters_{};

  Mutex mutex_;
  Condition changed_;
  EvictionQueue queue_ VERBENA_GUARDED_BY(mutex_);
  std::list<Streams::Range> loading_ VERBENA_GUARDED_BY(mutex_);
  Streams streams_ VERBENA_GUARDED_BY(mutex_);
  // What readers in order will want. If the tier cannot keep up it is dropped: they fetch it then.
  static constexpr size_t kMaxAhead = 16;
  std::deque<Streams::Range> ahead_ VERBENA_GUARDED_BY(mutex_);
  Condition ahead_changed_;
  size_t reading_ VERBENA_GUARDED_BY(mutex_) = 0;  // threads for that
  bool stopping_ VERBENA_GUARDED_BY(mutex_) = false;
  std::set<ObjectId> unflushed_ VERBENA_GUARDED_BY(mutex_);
  // Drafts of puts that are under way: flushed only if there is no room otherwise, for most are
  // gone soon.
  std::set<ObjectId> drafts_ VERBENA_GUARDED_BY(mutex_);
  // Taken from these, by flush_all() that are under way.
  std::multiset<ObjectId> flushing_ VERBENA_GUARDED_BY(mutex_);
  std::atomic<uint64_t> turn_ = 0;
  bool failing_ = false;                                  // flushes by itself; of the thread alone
  std::chrono::steady_clock::time_point make_room_at_{};  // and so is this: not before
  static constexpr size_t kForgetAt = 1000;
  size_t forget_at_ = kForgetAt;  // segments; of the thread alone, too
  std::thread thread_;
  std::vector<std::thread> readers_;
};

template <typename Op>
auto Cache::run(Op op) -> decltype(op()) {
  constexpr int kRounds = 1000;  // others may drive out what was fetched, but not for ever
  for (int round = 0;; ++round) {
    auto done = op();
    if (done || round == kRounds) return done;
    if (done.error().code == store::Code::kBehind) {
      if (auto loaded = load(done.error().behind); !loaded) return fail(loaded.error());
    } else if (done.error().code == store::Code::kFull) {
      if (!make_room(kSegmentParts)) return done;
    } else {
      return done;
    }
  }
}

}  // namespace verbena::cache
