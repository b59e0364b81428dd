// SPDX-License-Identifier: Apache-2.0
#include "store_cli/put_object.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "store_cli/draft.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

// Where it goes.
struct Target {
  store::ObjectId id;
  std::string name;  // for a new one, or to change to
  bool exists = false;
  uint64_t offset = 0;  // in the object
  store::ObjectInfo before;
};

class Put {
 public:
  Put(store::Objects& store, const PutRequest& request, Transferred& transferred, Report& report)
      : request_(request),
        transferred_(transferred),
        report_(report),
        store_(store),
        piece_(store.piece_bytes()) {}

  // False: not done, and `report_` knows why.
  [[nodiscard]] bool find_target();
  [[nodiscard]] bool copy(InputFile& input);
  [[nodiscard]] PutResult result() const;

 private:
  bool wrong(store::Error error) {
    transferred_.bar.clear();
    unreachable_ = unreachable_ || error.code == store::Code::kUnreachable;
    if (error.code == store::Code::kFull) {
      error.what = fmt::format("the store is full: {}; the object is unchanged", error.what);
    }
    report_.error(error, request_.shown);
    return false;
  }
  [[nodiscard]] bool transfer(InputFile& input, store::ObjectId to);
  // Up to `most` bytes to this offset of the object. How many; nothing: `report_` knows why.
  [[nodiscard]] std::optional<uint64_t> transfer_range(InputFile& input, store::ObjectId to,
                                                       uint64_t at, uint64_t most);
  [[nodiscard]] bool transfer_data(InputFile& input, store::ObjectId to);
  [[nodiscard]] bool is_part() const { return request_.part || request_.append; }
  [[nodiscard]] bool has_changed() const;
  [[nodiscard]] bool place(Draft& draft);

  const PutRequest& request_;
  Transferred& transferred_;
  Report& report_;
  store::Objects& store_;
  Target target_;
  const size_t piece_;  // whole chunks, so that none is written twice
  std::unique_ptr<uint8_t[]> buffer_;
  uint64_t bytes_ = 0;
  bool unreachable_ = false;
};

bool Put::find_target() {
  target_ = {};
  const auto found = look_up(store_, request_.object);
  if (!found) return wrong(found.error());
  target_.exists = found->has_value();
  if (target_.exists) {
    if (request_.only_new) return wrong({store::Code::kExists, "already exists", {}});
    target_.before = **found;
    target_.id = target_.before.id;
  } else if (const auto* const id = std::get_if<store::ObjectId>(&request_.object)) {
    target_.id = *id;
  } else {
    target_.id = random_id();
    target_.name = std::get<std::string>(request_.object);
  }
  if (!request_.name.empty()) {
    target_.name = request_.name;
    const auto other = store_.find(target_.name);
    if (other && *other != target_.id) {
      return wrong({store::Code::kExists,
                    fmt::format("another object has the name '{}'", target_.name),
                    {}});
    }
  }
  target_.offset = request_.append ? target_.before.size : request_.offset;
  return true;
}

std::optional<uint64_t> Put::transfer_range(InputFile& input, store::ObjectId to, uint64_t begin,
                                            uint64_t most) {
  for (uint64_t done = 0;;) {
    const uint64_t at = begin + done;
    const auto room = std::min<uint64_t>(piece_ - at % store::kDataBytes, most - done);
    const auto got = input.fill({buffer_.get(), room});
    if (const int signal = interrupted(); signal != 0) {
      transferred_.bar.clear();
      report_.interrupted(signal, "interrupted; the object is unchanged");
      return std::nullopt;
    }
    if (!got) {
      transferred_.bar.clear();
      report_.error(kNotDone, "io", got.error());
      return std::nullopt;
    }
    if (*got > 0) {
      if (const auto wrote = store_.write(to, at, {buffer_.get(), *got}); !wrote) {
        wrong(wrote.error());
        return std::nullopt;
      }
    }
    done += *got;
    bytes_ += *got;
    transferred_.bar.update(transferred_.bytes + bytes_);
    if (*got < room || done == most) return done;
  }
}

// Holes of the file stay holes.
bool Put::transfer_data(InputFile& input, store::ObjectId to) {
  for (uint64_t at = 0;;) {
    const auto data = input.next_data(at, store::kDataBytes);
    if (!data) {
      transferred_.bar.clear();
      report_.error(kNotDone, "io", data.error());
      return false;
    }
    bytes_ = data->begin;
    if (data->begin >= data->end) {
      if (const auto done = store_.truncate(to, data->end); !done) return wrong(done.error());
      return true;
    }
    const auto moved = transfer_range(input, to, data->begin, data->end - data->begin);
    if (!moved) return false;
    at = data->begin + *moved;
    if (*moved < data->end - data->begin) return true;  // shorter than it was: that is its end
  }
}

bool Put::transfer(InputFile& input, store::ObjectId to) {
  buffer_ = std::make_unique_for_overwrite<uint8_t[]>(piece_);
  if (!is_part() && input.has_holes()) return transfer_data(input, to);
  return transfer_range(input, to, target_.offset, UINT64_MAX).has_value();
}

bool Put::has_changed() const {
  const auto now = store_.stat(target_.id);
  return !now || now->number != target_.before.number || now->size != target_.before.size ||
         now->modified_ns != target_.before.modified_ns;
}

// Of a store that a server has, others may make, change or remove the object at the same moment.
bool Put::place(Draft& draft) {
  if (is_part() && target_.exists && has_changed()) {
    return wrong({store::Code::kConflict,
                  "another process has changed the object meanwhile; run the command again",
                  {}});
  }
  constexpr int kTries = 8;
  for (int tries = 1;; ++tries) {
    const auto done = draft.become(target_.id, target_.exists, target_.name);
    if (done) return true;
    const auto outrun = target_.exists ? store::Code::kNotFound : store::Code::kExists;
    if (is_part() || done.error().code != outrun || tries == kTries) return wrong(done.error());
    if (!find_target()) return false;
  }
}

bool Put::copy(InputFile& input) {
  auto draft = is_part() && target_.exists
                   ? Draft::clone(store_, {.from = target_.id, .to = {}, .to_name = {}})
                   : Draft::empty(store_);
  if (!draft) return wrong(draft.error());
  if (!transfer(input, draft->id()) || !place(*draft)) {
    if (unreachable_) draft->leave();
    return false;
  }
  if (target_.exists && !target_.name.empty() && target_.name != target_.before.name) {
    const auto renamed = store_.rename(target_.id, target_.name);
    if (!renamed) return wrong(renamed.error());
  }
  return true;
}

PutResult Put::result() const {
  PutResult result{{}, target_.offset, bytes_, target_.exists};
  if (const auto now = store_.stat(target_.id)) result.object = *now;
  return result;
}

}  // namespace

std::optional<PutResult> put_object(store::Objects& store, const PutRequest& request,
                                    InputFile& input, Transferred& transferred, Report& report) {
  Put work(store, request, transferred, report);
  if (!work.find_target() || !work.copy(input)) return std::nullopt;
  PutResult result = work.result();
  transferred.bytes += result.bytes;
  return result;
}

}  // namespace verbena::store_cli
