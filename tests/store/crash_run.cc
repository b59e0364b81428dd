// SPDX-License-Identifier: Apache-2.0
#include "crash_run.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "compare.h"

namespace verbena::store::trial {
namespace {

class History {
 public:
  History(uint64_t seed, const CrashOptions& options)
      : seed_(seed),
        options_(options),
        random_(seed),
        marks_(~seed),
        shape_{.chunks_per_block = random_.below(2) == 0 ? 16u : 32u, .blocks = 0},
        medium_(with_blocks(shape_), seed) {
    store_options_.durability = random_.below(3) == 0 ? Durability::kEach : Durability::kFlush;
    if (random_.below(3) == 0) store_options_.flush_bytes = 64 * 1024;
    store_options_.omit = options.omit;
    if (seed % 2 == 1) {
      store_options_.on_due = [this] { due_ = true; };
      store_options_.while_folding = [this] { work_beside(); };
    }
    store_options_.now_ns = [this] { return clock_ns_ += 1000; };
    store_options_.random = [this] { return marks_.next(); };
    moments_.emplace_back();  // there is no store
  }

  CrashResult run() {
    result_.violation = live();
    // What happened since the last power cut; before that it was looked at already.
    if (result_.violation.empty()) result_.violation = look_back();
    return std::move(result_);
  }

 private:
  static MediumShape with_blocks(MediumShape& shape) {
    shape.blocks = shape.chunks_per_block == 16 ? 28 : 16;
    return shape;
  }
  void tell(std::string line) {
    if (options_.trace) std::printf("%4zu  %s\n", moments_.size() - 1, line.c_str());
    result_.trace.push_back(std::to_string(moments_.size() - 1) + ": " + std::move(line));
  }
  void mark(bool closed = false) {
    medium_.mark(static_cast<uint32_t>(acknowledged_), static_cast<uint32_t>(moments_.size() - 1),
                 closed);
  }
  [[nodiscard]] const Model& model() const { return moments_.back().model; }

  std::string live() {
    mark();
    moments_.emplace_back();
    mark();
    tell(std::string("a store of blocks of ") + std::to_string(shape_.chunks_per_block) +
         " chunks, durable at each " +
         (store_options_.durability == Durability::kEach ? "operation" : "flush") +
         (store_options_.on_due ? ", with a thread for what is due" : ""));
    auto created = Store::create(medium_.open_backend(), store_options_);
    if (!created.has_value()) return "creating: " + created.error().what;
    store_ = std::move(*created);
    acknowledged_ = 1;
    mark();
    for (uint32_t i = 0; i < options_.operations; ++i) {
      std::string violation = random_.below(options_.reopen_one_in) == 0 ? reopen() : step();
      if (violation.empty()) violation = tend();
      if (!violation.empty()) return violation;
    }
    return options_.bursts && store_options_.durability == Durability::kFlush ? burst() : "";
  }

  // Flushes of many records each, one of which spans two extents of the log.
  std::string burst() {
    const ObjectId id{99, 99};
    std::string violation = step({.kind = Operation::Kind::kCreate, .id = id});
    for (int i = 0; i < 80 && violation.empty(); ++i) {
      violation = step({.kind = Operation::Kind::kRename,
                        .id = id,
                        .name = std::string(990, 'x') + std::to_string(i)});
      if (i % 20 == 19 && violation.empty()) violation = step({.kind = Operation::Kind::kFlush});
    }
    return violation;
  }

  // What a thread of its own would do.
  std::string tend() {
    if (!std::exchange(due_, false)) return {};
    tell("what is due");
    may_work_beside_ = true;
    const auto done = store_->tend();
    may_work_beside_ = false;
    if (!done && !medium_.killed()) return "alive: " + done.error().what;
    return std::exchange(violation_beside_, {});
  }

  // A few operations while a checkpoint is being written: they are behind it.
  void work_beside() {
    if (!std::exchange(may_work_beside_, false)) return;
    for (uint64_t left = random_.below(5); left > 0 && violation_beside_.empty(); --left) {
      const Operation operation = draw_one();
      if (operation.kind == Operation::Kind::kCheckpoint ||
          operation.kind == Operation::Kind::kCompact) {
        continue;
      }
      tell("beside a checkpoint:");
      violation_beside_ = step(operation);
    }
    may_work_beside_ = true;
  }

  std::string step() { return step(draw_one()); }

  Operation draw_one() {
    // Small enough that space runs out now and then, and is used again.
    const Profile profile{.objects = 5,
                          .object_bytes = 60'000,
                          .write_bytes = 24'000,
                          .sparse_bytes = 0,
                          .flush_per_mille = 180,
                          .checkpoint_per_mille = 40,
                          .nonsense_per_mille = 10};
    return draw(random_, model(), profile);
  }

  std::string step(const Operation& operation) {
    tell(describe(operation));
    ++result_.operations;
    Model next = model();
    const Refusal expected = apply(next, operation);
    if (expected.has_value()) next = model();
    const bool checkpoints = operation.kind == Operation::Kind::kCheckpoint ||
                             operation.kind == Operation::Kind::kCompact;
    // Beside a checkpoint the next moment may come before this one is looked at.
    Picture picture = checkpoints ? moments_.back().picture : Picture{};
    moments_.push_back({.model = std::move(next), .picture = std::move(picture)});
    const size_t moment = moments_.size() - 1;
    mark();
    std::string why;
    may_work_beside_ = checkpoints;
    const Refusal actual = apply(*store_, operation, &why);
    if (checkpoints) may_work_beside_ = false;
    if (!violation_beside_.empty()) return std::exchange(violation_beside_, {});
    if (actual == Code::kFull) {
      if (!checkpoints) moments_.back().model = moments_[moments_.size() - 2].model;
      tell("refused: " + why);
    } else if (actual != expected) {
      return "alive: " + describe(operation) + " was " + describe(actual) + " (" + why + "), not " +
             describe(expected);
    }
    const bool flushed = !actual.has_value() && makes_durable(operation);
    return acknowledge(flushed || store_options_.durability == Durability::kEach, moment);
  }

  // The moment that was begun has come, and perhaps others beside it.
  std::string acknowledge(bool durable, size_t moment) {
    auto picture = picture_of(*store_);
    if (!picture.has_value()) return "alive: " + picture.error();
    moments_.back().picture = std::move(*picture);
    std::string violation = compare(*store_, model(), random_);
    if (!violation.empty()) return "alive: " + violation;
    if (medium_.killed()) return {};  // nobody was told
    if (durable) acknowledged_ = std::max(acknowledged_, moment);
    mark();
    return {};
  }

  std::string reopen() {
    switch (random_.below(3)) {
      case 0: {
        tell("closed and opened");
        const auto closed = store_->close();
        if (!closed.has_value()) return "closing: " + closed.error().what;
        acknowledged_ = moments_.size() - 1;
        mark(true);
        store_.reset();
        if (random_.below(4) == 0) {
          std::string violation = look_back();
          if (!violation.empty()) return violation;
          tell("a power cut");
          cut_power(true);
        }
        break;
      }
      case 1: {
        std::string violation = random_.below(3) != 0 ? die_at_work() : "";
        if (!violation.empty()) return violation;
        tell("killed and opened");
        if (!medium_.killed()) medium_.kill();
        store_.reset();
        break;
      }
      default: {
        medium_.kill();
        store_.reset();
        std::string violation = look_back();
        if (!violation.empty()) return violation;
        tell("a power cut, and opened");
        cut_power();
      }
    }
    return open();
  }

  // At one of the next flushes and fences of whatever it is about to do.
  void arm(uint64_t within) {
    // Drawn in an order that is not the compiler's choice: a seed is the same world on each
    // machine.
    const uint64_t storing = random_.next();
    medium_.kill_at(1 + static_cast<uint32_t>(random_.below(within)), storing);
  }

  std::string die_at_work() {
    switch (random_.below(6)) {
      case 0: {
        // With nothing left to flush, closing is two superblocks, with a fence after each.
        const bool idle = random_.below(2) == 0;
        for (int i = 0; idle && i < 2; ++i) {
          std::string violation = step({.kind = Operation::Kind::kFlush});
          if (!violation.empty()) return violation;
        }
        if (idle) {
          arm(4);
        } else {
          arm(6);
        }
        tell("killed while it closes");
        static_cast<void>(store_->close());
        return {};
      }
      case 1: {
        std::string violation = step();
        arm(4);
        return violation.empty() ? step({.kind = Operation::Kind::kFlush}) : violation;
      }
      case 2:  arm(8); return step({.kind = Operation::Kind::kCheckpoint});
      case 4:  arm(30); return step({.kind = Operation::Kind::kCompact});
      case 3:  return die_at_watermark();
      default: break;
    }
    arm(8);
    for (int i = 0; i < 4 && !medium_.killed(); ++i) {
      std::string violation = step();
      if (!violation.empty()) return violation;
    }
    return {};
  }

  // The second flush after a change that frees chunks writes a watermark and nothing else.
  std::string die_at_watermark() {
    const std::vector<ObjectId> ids = model().listing();
    if (ids.empty()) return {};
    std::string violation = step({.kind = Operation::Kind::kRemove, .id = ids.back()});
    if (violation.empty() && store_options_.durability != Durability::kEach) {
      violation = step({.kind = Operation::Kind::kFlush});
    }
    // All of it is stored, and not all flushed.
    medium_.kill_at(1 + static_cast<uint32_t>(random_.below(2)), std::nullopt);
    return violation.empty() ? step({.kind = Operation::Kind::kFlush}) : violation;
  }

  std::string open() {
    OpenReport report;
    for (bool dies = random_.below(3) == 0;; dies = false) {
      report = {};
      auto backend = medium_.open_backend();
      mark();
      if (dies) arm(8);
      auto opened = Store::open(std::move(backend), store_options_, &report);
      if (!opened.has_value()) return "opening: " + opened.error().what;
      store_ = std::move(*opened);
      if (!medium_.killed()) break;
      tell("killed while it opened");
      store_.reset();
    }
    medium_.kill_at(0, 0);
    tell("opened with " + std::to_string(report.log_chunks) + " chunks of log, " +
         std::to_string(report.verified_chunks) + " of data verified" +
         (report.clean ? ", clean" : ""));
    const auto picture = picture_of(*store_);
    if (!picture.has_value()) return "opened, but " + picture.error();
    // Which of those that are allowed it is: from now on it is that one and no other.
    for (size_t i = moments_.size(); i-- > acknowledged_;) {
      if (moments_[i].picture != *picture) continue;
      if (!compare(*store_, moments_[i].model, random_).empty()) continue;
      moments_.push_back(moments_[i]);
      acknowledged_ = moments_.size() - 1;
      tell("it is at moment " + std::to_string(i));
      mark();
      return {};
    }
    return "opened, and it is none of the moments " + std::to_string(acknowledged_) + " to " +
           std::to_string(moments_.size() - 1) +
           "; of the first: " + difference(moments_[acknowledged_].picture, *picture) + "; " +
           compare(*store_, moments_[acknowledged_].model, random_);
  }

  // The medium becomes what a power cut at this moment may leave.
  void cut_power(bool closed = false) {
    Walk walk(medium_.recording());
    while (walk.next()) continue;
    std::vector<uint32_t> choice;
    const uint64_t bias = random_.below(3);
    for (const Walk::DirtyLine& dirty : walk.dirty()) {
      const auto newest = static_cast<uint32_t>(dirty.versions.size());
      const bool any = random_.below(bias == 2 ? 2 : 20) == 0;
      choice.push_back(any         ? static_cast<uint32_t>(random_.below(newest + 1))
                       : bias == 0 ? 0
                                   : newest);
    }
    medium_.restore(walk.image(choice), true);
    mark(closed);
  }

  std::string look_back() {
    RecoveryCheck check(shape_, store_options_, moments_, random_.next());
    std::string violation = check.explore(medium_.recording(), options_.effort, options_.depth);
    result_.counts.add(check.counts());
    return violation;
  }

  const uint64_t seed_;
  const CrashOptions& options_;
  SeededRandom random_;
  SeededRandom marks_;  // of the store
  MediumShape shape_;
  Options store_options_;
  uint64_t clock_ns_ = 0;
  RecordingMedium medium_;
  std::unique_ptr<Store> store_;
  std::vector<Moment> moments_;
  size_t acknowledged_ = 0;
  bool due_ = false;
  bool may_work_beside_ = false;
  std::string violation_beside_;
  CrashResult result_;
};

}  // namespace

CrashResult run_crashes(uint64_t seed, const CrashOptions& options) {
  return History(seed, options).run();
}

}  // namespace verbena::store::trial
