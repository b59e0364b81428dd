// SPDX-License-Identifier: Apache-2.0
#include "store_cli/object_view.h"

#include <fmt/format.h>

#include "store_cli/object_name.h"
#include "store_cli/print.h"

namespace verbena::store_cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kRow = "{:>10}  {:<19}  {}\n";

// Calls take(segment) for all of an object's, however many there are.
template <typename Take>
[[nodiscard]] store::Result<void> each_segment(const store::Objects& store, store::ObjectId object,
                                               const Take& take) {
  constexpr size_t kAtOnce = 1000;
  for (uint64_t offset = 0;;) {
    const auto segments = store.segments(object, offset, kAtOnce);
    if (!segments) return fail(segments.error());
    for (const store::SegmentInfo& segment : *segments) {
      take(segment);
      offset = segment.offset + segment.size;
    }
    if (segments->size() < kAtOnce) return {};
  }
}

std::string where_of(const store::ObjectInfo& object) {
  if (object.content > 0) return "none: its bytes are in the index";
  return fmt::format("{} in {} segment{}", object.chunks, object.segments,
                     object.segments == 1 ? "" : "s");
}

}  // namespace

ordered_json json_of(const store::ObjectInfo& object) {
  return {{"id", text_of(object.id)},
          {"name", object.name.empty() ? ordered_json(nullptr) : ordered_json(object.name)},
          {"size", object.size},
          {"chunks", object.chunks},
          {"segments", object.segments},
          {"created", utc_time(object.created_ns)},
          {"modified", utc_time(object.modified_ns)}};
}

ordered_json json_of(const store::BehindReport& behind) {
  return {{"flushed", behind.flushed},
          {"unflushed_bytes", behind.only_here * store::kDataBytes},
          {"cached_bytes", (behind.only_here + behind.in_both) * store::kDataBytes},
          {"only_behind_bytes", behind.behind * store::kDataBytes}};
}

std::string text_of(const store::BehindReport& behind, const Report& report) {
  const auto bytes = [&](uint64_t parts) { return report.size(parts * store::kDataBytes); };
  return fmt::format("{}; {} only here, {} in both, {} only behind",
                     behind.flushed ? "flushed" : "not flushed", bytes(behind.only_here),
                     bytes(behind.in_both), bytes(behind.behind));
}

ordered_json json_of(const store::SegmentInfo& segment) {
  if (segment.count == 0) return {{"offset", 0}, {"size", segment.size}, {"count", 0}};
  return {{"offset", segment.offset}, {"size", segment.size},     {"chunk", segment.chunk},
          {"count", segment.count},   {"txn", segment.birth.txn}, {"shared", segment.shared}};
}

store::Result<ordered_json> json_of_segments(const store::Objects& store, store::ObjectId object) {
  ordered_json all = ordered_json::array();
  const auto done = each_segment(
      store, object, [&](const store::SegmentInfo& segment) { all.push_back(json_of(segment)); });
  if (!done) return fail(done.error());
  return all;
}

std::string table_head() { return fmt::format(kRow, "SIZE", "MODIFIED", "OBJECT"); }

std::string table_line(const store::ObjectInfo& object, const Report& report) {
  return fmt::format(kRow, report.size(object.size), local_time(object.modified_ns),
                     object.name.empty() ? text_of(object.id) : printable(object.name));
}

std::string paragraph(const store::ObjectInfo& object, const Report& report) {
  return fmt::format(
      "{}\n"
      "  id        {}\n"
      "  size      {}\n"
      "  chunks    {}\n"
      "  created   {}\n"
      "  modified  {}\n",
      object.name.empty() ? "(no name)" : printable(object.name), text_of(object.id),
      report.size(object.size), where_of(object), local_time(object.created_ns),
      local_time(object.modified_ns));
}

store::Result<void> print_segments(const store::Objects& store, store::ObjectId object,
                                   const Report& report) {
  print("    {:>12}  {:>10}  {:>12}  {:>6}  {}\n", "OFFSET", "SIZE", "CHUNK", "CHUNKS",
        "TRANSACTION");
  return each_segment(store, object, [&](const store::SegmentInfo& segment) {
    if (segment.count == 0) {
      print("    {:>12}  {:>10}  {:>12}\n", 0, report.size(segment.size), "in the index");
      return;
    }
    print("    {:>12}  {:>10}  {:>12}  {:>6}  {}.{}{}\n", segment.offset, report.size(segment.size),
          segment.chunk, segment.count, segment.birth.txn >> 40,
          segment.birth.txn & ((uint64_t{1} << 40) - 1), segment.shared ? "  shared" : "");
  });
}

}  // namespace verbena::store_cli
