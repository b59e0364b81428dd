// SPDX-License-Identifier: Apache-2.0
// Records from bytes that nobody vouches for.
#include <type_traits>

#include "base/check.h"
#include "base/endian.h"
#include "store/record_encoding.h"

namespace verbena::store {
namespace {

using namespace encoding;  // NOLINT(google-build-using-namespace)

// The other way: answers false once there are not enough bytes.
class Parse {
 public:
  explicit Parse(std::span<const uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] std::span<const uint8_t> rest() const { return rest_; }
  template <typename... T>
  [[nodiscard]] bool take(T&... values) {
    return (one(values) && ...);
  }

 private:
  template <typename T>
    requires std::is_unsigned_v<T>
  [[nodiscard]] bool one(T& value) {
    if (rest_.size() < sizeof(T)) return false;
    value = load_be<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  [[nodiscard]] bool one(ObjectId& id) { return take(id.high, id.low); }
  [[nodiscard]] bool one(std::string_view& name) {
    uint16_t length = 0;
    if (!one(length) || rest_.size() < length) return false;
    name = {reinterpret_cast<const char*>(rest_.data()), length};
    rest_ = rest_.subspan(length);
    return true;
  }
  std::span<const uint8_t> rest_;
};

using Read = verbena::Result<Record, RecordFault>;

[[nodiscard]] Read checked(Record record, Fault fault) {
  if (fault) return fail(*fault);
  return record;
}

[[nodiscard]] Fault read_behind(Parse& parse, Behind& behind, std::optional<UnderView>& under) {
  uint8_t flags = 0;
  if (!parse.take(behind.version, behind.next, behind.tries, flags)) return RecordFault::kShort;
  if (flags > (kWhole | kUnder)) return RecordFault::kBehind;
  behind.whole = (flags & kWhole) != 0;
  if ((flags & kUnder) != 0) {
    UnderView& there = under.emplace();
    Behind& own = there.own;
    if (!parse.take(own.version, own.next, own.tries, there.id, there.name)) {
      return RecordFault::kShort;
    }
  }
  return fault_of(behind, under);
}

[[nodiscard]] verbena::Result<Run, RecordFault> read_run(uint64_t number, Parse& parse) {
  uint8_t form = 0;
  Run run;
  if (!parse.take(form, run.index)) return fail(RecordFault::kShort);
  if (form == kWithoutChunks) {
    run.held = Held::kBehind;
    if (!parse.take(run.count)) return fail(RecordFault::kShort);
  } else {
    uint16_t count = 0;
    if (form > (kBornElsewhere | kHeldByBoth)) return fail(RecordFault::kRun);
    if (!parse.take(run.chunk, count, run.birth.txn)) return fail(RecordFault::kShort);
    run.count = count;
    run.held = (form & kHeldByBoth) != 0 ? Held::kBoth : Held::kHere;
    run.birth.owner = number;
    run.birth.index = run.index;
    if ((form & kBornElsewhere) != 0 && !parse.take(run.birth.owner, run.birth.index)) {
      return fail(RecordFault::kShort);
    }
  }
  if (form_of(number, run) != form) return fail(RecordFault::kRun);
  if (const Fault fault = fault_of(run)) return fail(*fault);
  return run;
}

[[nodiscard]] Read read_map(Parse& parse) {
  MapRecord r;
  uint16_t count = 0;
  if (!parse.take(r.number, r.size, count)) return fail(RecordFault::kShort);
  if (const Fault fault = fault_of_object(r.number, r.size)) return fail(*fault);
  if (count == 0) return fail(RecordFault::kRun);
  if (parse.rest().size() < count * kRunBehindBytes) return fail(RecordFault::kShort);
  r.runs.reserve(count);
  for (; count > 0; --count) {
    const auto run = read_run(r.number, parse);
    if (!run) return fail(run.error());
    r.runs.push_back(*run);
  }
  return r;
}

[[nodiscard]] Read read_object(Parse& parse) {
  ObjectRecord r;
  uint8_t place = 0;
  const auto short_record = fail(RecordFault::kShort);
  if (!parse.take(r.number, r.id, r.created_ns, r.modified_ns, r.name, place)) return short_record;
  if (place > (kInRecord | kWithBehind)) return fail(RecordFault::kContent);
  if ((place & kWithBehind) != 0) {
    if (const Fault fault = read_behind(parse, r.behind, r.under)) return fail(*fault);
    // There is one way to say that there is nothing.
    if (r.behind == Behind{}) return fail(RecordFault::kBehind);
  }
  if ((place & kInRecord) == 0) {
    if (!parse.take(r.size, r.runs, r.chunks)) return short_record;
  } else {
    if (!parse.take(r.crc, r.content)) return short_record;
    if (r.content.empty()) return fail(RecordFault::kContent);
    r.size = r.content.size();
  }
  return checked(r, fault_of(r));
}

[[nodiscard]] Read read_body(Type type, Parse& parse) {
  const auto short_record = fail(RecordFault::kShort);
  switch (type) {
    case Type::kCreate: {
      CreateRecord r;
      if (!parse.take(r.number, r.id, r.time_ns, r.name)) return short_record;
      return checked(r, fault_of_name(r.number, r.name));
    }
    case Type::kMap:      return read_map(parse);
    case Type::kTruncate: {
      TruncateRecord r;
      if (!parse.take(r.number, r.size)) return short_record;
      return checked(r, fault_of_object(r.number, r.size));
    }
    case Type::kClone: {
      CloneRecord r;
      if (!parse.take(r.from, r.from_index, r.to, r.to_index, r.count, r.size)) {
        return short_record;
      }
      return checked(r, fault_of(r));
    }
    case Type::kDelete: {
      DeleteRecord r;
      if (!parse.take(r.number)) return short_record;
      return checked(r, fault_of_object(r.number, 0));
    }
    case Type::kRename: {
      RenameRecord r;
      if (!parse.take(r.number, r.name)) return short_record;
      return checked(r, fault_of_name(r.number, r.name));
    }
    case Type::kFlushed: {
      FlushedRecord r;
      if (!parse.take(r.number)) return short_record;
      if (const Fault fault = read_behind(parse, r.behind, r.under)) return fail(*fault);
      return checked(r, fault_of(r));
    }
    case Type::kCommit: {
      CommitRecord r;
      if (!parse.take(r.txn, r.watermark, r.time_ns)) return short_record;
      return r;
    }
    case Type::kContent: {
      ContentRecord r;
      if (!parse.take(r.number, r.crc, r.content)) return short_record;
      return checked(r, fault_of(r));
    }
    case Type::kTable: {
      TableRecord r;
      if (!parse.take(r.next_number, r.chunks[0], r.chunks[1], r.chunks[2], r.chunks[3])) {
        return short_record;
      }
      return checked(r, fault_of_object(r.next_number, 0));
    }
    case Type::kObject: return read_object(parse);
    case Type::kName:   {
      NameRecord r;
      if (!parse.take(r.name, r.number)) return short_record;
      if (r.name.empty() && !parse.take(r.id)) return short_record;
      return checked(r, fault_of(r));
    }
    case Type::kId: {
      IdRecord r;
      if (!parse.take(r.id, r.number)) return short_record;
      return checked(r, fault_of(r));
    }
    case Type::kTake: {
      TakeRecord r;
      if (!parse.take(r.from, r.to)) return short_record;
      return checked(r, fault_of(r));
    }
  }
  return fail(RecordFault::kType);
}

}  // namespace

verbena::Result<Record, RecordFault> RecordReader::next() {
  VERBENA_CHECK(!done());
  Parse parse(rest_.subspan(1));
  auto record = read_body(static_cast<Type>(rest_[0]), parse);
  if (record) rest_ = parse.rest();
  return record;
}

}  // namespace verbena::store
