// SPDX-License-Identifier: Apache-2.0
#include "property_run.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <utility>

#include "compare.h"
#include "model.h"
#include "operation.h"
#include "store/store.h"

namespace verbena::store::trial {
namespace {

constexpr size_t kTraced = 40;
constexpr size_t kMaxHeld = 6;

// A prepared read, and what it must show for as long as it is held.
struct Held {
  PreparedRead read;
  std::vector<uint8_t> bytes;
  std::vector<CellRef> cells;
};

class Run {
 public:
  Run(uint64_t seed, Place& place, const PropertyOptions& options)
      : place_(place), options_(options), random_(seed) {
    if (random_.below(4) == 0) store_options_.durability = Durability::kEach;
    if (random_.below(3) == 0) store_options_.flush_bytes = 256 * 1024;
    if (random_.below(2) == 0) store_options_.on_due = [this] { due_ = true; };
    profile_.objects = 2 + random_.below(12);
    if (random_.below(4) == 0) profile_.object_bytes = 2 * 1024 * 1024;
  }

  PropertyResult run() {
    result_.violation = all();
    result_.trace.assign(trace_.begin(), trace_.end());
    return std::move(result_);
  }

 private:
  void tell(std::string line) {
    line = std::to_string(result_.steps) + ": " + line;
    if (options_.trace) std::printf("%s\n", line.c_str());
    trace_.push_back(std::move(line));
    if (trace_.size() > kTraced) trace_.pop_front();
  }

  std::string all() {
    auto backend = place_.backend();
    if (!backend.has_value()) return "no medium: " + backend.error().what;
    auto created = Store::create(std::move(*backend), store_options_, random_);
    if (!created.has_value()) return "creating: " + created.error().what;
    store_ = std::move(*created);
    persistent_ = store_->medium_properties().persistent;
    if (!persistent_) model_.always_chunks();
    for (; result_.steps < options_.steps; ++result_.steps) {
      std::string violation = step();
      if (!violation.empty()) return violation;
      if (std::exchange(due_, false)) {
        tell("what is due");
        if (const auto done = store_->tend(); !done) return "tend: " + done.error().what;
      }
      if (random_.below(24) == 0) violation = compare(*store_, model_, random_, pins());
      if (!violation.empty()) return violation;
    }
    return finish();
  }

  std::string step() {
    const uint64_t what = random_.below(100);
    if (what < 70) return change();
    if (what < 80) return read();
    if (what < 86) return hold();
    if (what < 92) return let_go();
    if (what < 96) return settle();
    if (what < 98 && persistent_) return reopen();
    tell("compare all");
    return compare(*store_, model_, random_, pins());
  }

  std::string change() {
    const Operation operation = draw(random_, model_, profile_);
    tell(describe(operation));
    Model next = model_;
    const Refusal expected = apply(next, operation);
    std::string why;
    const Refusal actual = apply(*store_, operation, &why);
    if (actual == Code::kFull) {
      ++result_.refused_full;
      tell("refused: " + why);
      return compare(*store_, model_, random_, pins());
    }
    if (actual != expected) {
      return describe(operation) + " was " + describe(actual) + " (" + why + "), not " +
             describe(expected);
    }
    if (!expected.has_value()) model_ = std::move(next);
    if (!held_.empty()) ++result_.held_over_changes;
    for (const ObjectId id : {operation.id, operation.to}) {
      if (model_.find(id) == nullptr) {
        if (store_->stat(id).has_value()) return "object " + text(id) + " is still there";
        continue;
      }
      std::string violation = compare_object(*store_, model_, id);
      if (!violation.empty()) return violation;
    }
    std::string violation = compare_listing(*store_, model_, random_);
    return violation.empty() ? compare_space(*store_, model_, pins()) : violation;
  }

  std::optional<ObjectId> some_object() {
    if (model_.objects().empty()) return {};
    auto at = model_.objects().begin();
    std::advance(at, static_cast<ptrdiff_t>(random_.below(model_.objects().size())));
    return at->first;
  }

  std::string read() {
    const auto id = some_object();
    if (!id.has_value()) return {};
    const uint64_t size = model_.find(*id)->size;
    const uint64_t offset = random_.below(std::min<uint64_t>(size, 1 << 22) + 10);
    std::vector<uint8_t> bytes(random_.below(100'000));
    tell("read " + text(*id) + " offset " + std::to_string(offset) + " length " +
         std::to_string(bytes.size()));
    uint32_t derived = 0;
    const auto got = store_->read(*id, offset, bytes, &derived);
    if (!got.has_value()) return "reading: " + got.error().what;
    const std::vector<uint8_t> expected = model_.read(*id, offset, bytes.size());
    if (*got != expected.size()) return "reading gave " + std::to_string(*got) + " bytes";
    bytes.resize(*got);
    if (bytes != expected) return "read other bytes than were written";
    return derived == crc(bytes) ? "" : "the CRC that was derived is not that of the bytes";
  }

  std::string hold() {
    const auto id = some_object();
    if (!id.has_value() || held_.size() == kMaxHeld) return {};
    const uint64_t size = model_.find(*id)->size;
    const uint64_t offset = random_.below(std::min<uint64_t>(size, 1 << 22) + 1);
    const uint64_t length = 1 + random_.below(60'000);
    tell("hold " + text(*id) + " offset " + std::to_string(offset) + " length " +
         std::to_string(length));
    auto read = store_->prepare_read(*id, offset, length);
    if (!read.has_value()) return "preparing a read: " + read.error().what;
    held_.push_back({.read = std::move(*read),
                     .bytes = model_.read(*id, offset, length),
                     .cells = model_.cells(*id, offset, length)});
    return verify(held_.back());
  }

  static std::string verify(const Held& held) {
    if (held.read.length() != held.bytes.size()) {
      return "a prepared read has " + std::to_string(held.read.length()) + " bytes, not " +
             std::to_string(held.bytes.size());
    }
    if (gather(held.read.pieces()) != held.bytes) return "a prepared read shows other bytes";
    if (held.read.crc() != crc(held.bytes)) return "a prepared read has another CRC";
    return {};
  }

  std::string let_go() {
    if (held_.empty()) return {};
    const size_t which = random_.below(held_.size());
    tell("let go of one of " + std::to_string(held_.size()) + " prepared reads");
    std::string violation = verify(held_[which]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
    return violation.empty() ? compare_space(*store_, model_, pins()) : violation;
  }

  [[nodiscard]] std::vector<CellRef> pins() const {
    std::vector<CellRef> cells;
    for (const Held& held : held_) {
      cells.insert(cells.end(), held.cells.begin(), held.cells.end());
    }
    return cells;
  }

  // What was freed can be used after two flushes, and not only some day.
  std::string settle() {
    tell("flush twice");
    for (int i = 0; i < 2; ++i) {
      const auto flushed = store_->flush();
      if (!flushed.has_value()) return "flush: " + flushed.error().what;
    }
    // Unless the log has no room to say so: then a checkpoint does.
    if (store_->space().pending != 0) {
      tell("checkpoint");
      const auto written = store_->checkpoint();
      if (!written.has_value()) return "checkpoint: " + written.error().what;
    }
    const uint64_t pending = store_->space().pending;
    if (pending != 0) return std::to_string(pending) + " chunks stay pending";
    return compare_space(*store_, model_, pins());
  }

  // As a command does that reads one object, or some.
  std::string read_on_demand() {
    auto backend = place_.backend();
    if (!backend.has_value()) return "no medium any more: " + backend.error().what;
    Options options = store_options_;
    options.read_only = options.on_demand = true;
    const auto opened = Store::open(std::move(*backend), options);
    if (!opened.has_value()) return "opening on demand: " + opened.error().what;
    std::string what = compare_listing(**opened, model_, random_);
    for (auto at = model_.objects().begin(); what.empty() && at != model_.objects().end(); ++at) {
      what = compare_object(**opened, model_, at->first);
    }
    return what.empty() ? what : "on demand, " + what;
  }

  std::string reopen() {
    tell("close and open");
    ++result_.reopened;
    for (const Held& held : held_) {
      std::string violation = verify(held);
      if (!violation.empty()) return violation;
    }
    held_.clear();
    const bool close = random_.below(4) != 0;
    if (close) {
      const auto closed = store_->close();
      if (!closed.has_value()) return "closing: " + closed.error().what;
    }
    store_.reset();
    if (std::string violation = read_on_demand(); !violation.empty()) return violation;
    auto backend = place_.backend();
    if (!backend.has_value()) return "no medium any more: " + backend.error().what;
    OpenReport report;
    auto opened = Store::open(std::move(*backend), store_options_, &report);
    if (!opened.has_value()) return "opening: " + opened.error().what;
    store_ = std::move(*opened);
    if (!report.clean) return "it was closed, and opening does not say so";
    if (!report.damage.empty()) return "opening found damage: " + report.damage.front().field;
    if (report.objects != model_.objects().size()) return "opening counts the objects wrong";
    return compare(*store_, model_, random_);
  }

  // Everything can be removed, and then all of the space is there again.
  std::string finish() {
    tell("remove everything");
    for (const Held& held : held_) {
      std::string violation = verify(held);
      if (!violation.empty()) return violation;
    }
    held_.clear();
    while (!model_.objects().empty()) {
      const ObjectId id = model_.objects().begin()->first;
      if (model_.remove(id).has_value()) return "?";
      const auto removed = store_->remove(id);
      if (!removed.has_value()) return "removing: " + removed.error().what;
    }
    std::string violation = settle();
    if (!violation.empty()) return violation;
    tell("write again");
    const std::vector<uint8_t> bytes(100'000, 7);
    if (!store_->create_object({.high = 9, .low = 9}).has_value() ||
        !store_->write({.high = 9, .low = 9}, 1, bytes).has_value() ||
        model_.create({.high = 9, .low = 9}, "").has_value() ||
        model_.write({.high = 9, .low = 9}, 1, bytes).has_value()) {
      return "an empty store takes no write";
    }
    return compare(*store_, model_, random_);
  }

  Place& place_;
  const PropertyOptions& options_;
  SeededRandom random_;
  Options store_options_;
  Profile profile_;
  bool persistent_ = false;
  std::unique_ptr<Store> store_;
  Model model_;
  std::vector<Held> held_;
  std::deque<std::string> trace_;
  bool due_ = false;
  PropertyResult result_;
};

}  // namespace

PropertyResult run_property(uint64_t seed, Place& place, const PropertyOptions& options) {
  return Run(seed, place, options).run();
}

}  // namespace verbena::store::trial
