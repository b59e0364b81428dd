// SPDX-License-Identifier: Apache-2.0
#include "store_cli/object_data.h"

#include <algorithm>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "store/crc_parts.h"
#include "store/drafts.h"

namespace verbena::store_cli {

namespace {

// What a list of names with a prefix may lack, each loss once.
class ListLosses {
 public:
  explicit ListLosses(std::string prefix) : prefix_(std::move(prefix)) {}
  void add(const std::vector<store::ListLoss>& losses) {
    for (const store::ListLoss& loss : losses) {
      const bool is_new = loss.name ? names_.insert(*loss.name).second
                                    : chunks_.insert(loss.error.damage.chunk).second;
      if (is_new && concerns(loss)) losses_.push_back(loss);
    }
  }
  // Of a list that went to the end, or up to this name.
  [[nodiscard]] store::Result<void> outcome(const std::optional<std::string>& end = {}) const {
    std::string what;
    const store::Error* first = nullptr;
    size_t count = 0;
    for (const store::ListLoss& loss : losses_) {
      if (end && loss.name.value_or(loss.after) > *end) continue;
      if (first == nullptr) first = &loss.error;
      if (++count <= kShown) what += (what.empty() ? "" : "; ") + sentence(loss);
    }
    if (first == nullptr) return {};
    if (count > kShown) what += fmt::format("; and {} more losses", count - kShown);
    return fail(store::Error{first->code, what + ": " + first->what, first->damage});
  }

 private:
  static constexpr size_t kShown = 20;

  [[nodiscard]] bool concerns(const store::ListLoss& loss) const {
    if (loss.name) return loss.name->starts_with(prefix_);
    if (loss.before && *loss.before <= prefix_ && !prefix_.empty()) return false;
    return loss.after <= prefix_ || loss.after.starts_with(prefix_);
  }
  static std::string sentence(const store::ListLoss& loss) {
    if (loss.name) {
      return loss.name->empty() ? "an object without a name may be missing"
                                : fmt::format("'{}' may be missing", *loss.name);
    }
    if (loss.after.empty() && !loss.before) return "any names may be missing";
    if (loss.after.empty() && loss.before->empty()) return "objects without a name may be missing";
    if (loss.after.empty()) return fmt::format("names before '{}' may be missing", *loss.before);
    if (!loss.before) return fmt::format("names after '{}' may be missing", loss.after);
    return fmt::format("names between '{}' and '{}' may be missing", loss.after, *loss.before);
  }

  std::string prefix_;
  std::vector<store::ListLoss> losses_;
  std::set<uint64_t> chunks_;
  std::set<std::string> names_;
};

}  // namespace

store::Result<void> each_object(const store::Objects& store, const std::string& prefix,
                                const std::function<bool(const store::ObjectInfo&)>& take) {
  return each_object(store, prefix, std::nullopt, take);
}

store::Result<void> each_object(const store::Objects& store, const std::string& prefix,
                                std::optional<store::Cursor> after,
                                const std::function<bool(const store::ObjectInfo&)>& take) {
  constexpr size_t kAtOnce = 1000;
  ListLosses losses(prefix);
  // Nobody has the id 0:0.
  if (!prefix.empty() && (!after || after->name < prefix)) after = store::Cursor{prefix, {}};
  for (bool more = true; more;) {
    std::vector<store::ListLoss> lost;
    const auto listed = store.list(after, kAtOnce, &lost);
    if (!listed) return fail(listed.error());
    const auto& page = *listed;
    more = page.size() == kAtOnce;
    losses.add(lost);
    for (const store::ObjectInfo& object : page) {
      if (!object.name.starts_with(prefix)) return losses.outcome();
      if (!store::is_hidden(object.id) && !take(object)) return losses.outcome(object.name);
    }
    if (!page.empty()) after = store::Cursor{page.back().name, page.back().id};
  }
  return losses.outcome();
}

store::Result<DataRange> next_data(const store::Objects& store, const store::ObjectInfo& object,
                                   uint64_t at, uint64_t end) {
  constexpr size_t kAtOnce = 64;
  const uint64_t chunks = object.size / store::kDataBytes + (object.size % store::kDataBytes != 0);
  if (at >= end) return DataRange{end, end};
  if (object.chunks == chunks || object.content > 0) return DataRange{at, end};  // without holes
  // What is only behind a cache is no hole: who reads it is told that it is not here.
  if (object.behind > 0) return DataRange{at, end};
  DataRange range{end, end};
  for (uint64_t next = at; next < end;) {
    const auto segments = store.segments(object.id, next, kAtOnce);
    if (!segments && segments.error().code == store::Code::kUnsupported) return DataRange{at, end};
    if (!segments) return fail(segments.error());
    for (const store::SegmentInfo& segment : *segments) {
      if (segment.offset >= end) return range;
      if (range.begin == end) {
        range.begin = std::max(at, segment.offset);
      } else if (segment.offset > range.end) {
        return range;
      }
      next = segment.offset + segment.size;
      range.end = std::min(end, next);
    }
    if (segments->size() < kAtOnce) return range;
  }
  return range;
}

namespace {

// Of a range of at most piece_bytes(). Where the stored CRCs cannot be had, it is read, and
// `buffer` is made for that.
[[nodiscard]] store::Result<uint32_t> crc_of_range(const store::Objects& store,
                                                   const store::ObjectInfo& object, uint64_t at,
                                                   uint64_t bytes,
                                                   std::unique_ptr<uint8_t[]>& buffer) {
  if (!buffer) {
    const auto stored = store.stored_crc(object.id, at, bytes);
    if (stored || stored.error().code != store::Code::kUnsupported) return stored;
    buffer = std::make_unique_for_overwrite<uint8_t[]>(store.piece_bytes());
  }
  uint32_t crc = 0;
  const auto got = store.read(object.id, at, {buffer.get(), bytes}, &crc);
  if (!got) return fail(got.error());
  if (*got != bytes) {
    return fail(store::Error{store::Code::kIo, "shorter than its recorded size", {}});
  }
  return crc;
}

}  // namespace

store::Result<uint32_t> object_crc(const store::Objects& store, const store::ObjectInfo& object,
                                   const std::function<bool(uint64_t)>& go_on) {
  const uint64_t piece_bytes = store.piece_bytes();
  std::unique_ptr<uint8_t[]> buffer;
  uint32_t crc = store::crc_of_zeros(0);
  for (uint64_t at = 0; at < object.size;) {
    const auto data = next_data(store, object, at, object.size);
    if (!data) return fail(data.error());
    crc = store::crc_zeros_after(crc, data->begin - at);
    for (at = data->begin; at < data->end;) {
      const uint64_t bytes = std::min(data->end - at, piece_bytes - at % store::kDataBytes);
      const auto piece = crc_of_range(store, object, at, bytes, buffer);
      if (!piece) return fail(piece.error());
      crc = store::crc_join(crc, *piece, bytes);
      at += bytes;
      if (!go_on(at)) return fail(store::Error{store::Code::kInvalid, "stopped", {}});
    }
  }
  return crc;
}

}  // namespace verbena::store_cli
