// SPDX-License-Identifier: Apache-2.0
#include "store/record.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/check.h"
#include "base/endian.h"

namespace verbena::store {
namespace {

enum class Type : uint8_t {
  kCreate = 1,
  kMap = 2,
  kTruncate = 3,
  kClone = 4,
  kDelete = 5,
  kRename = 6,
  kFlushed = 7,
  kCommit = 8,
  kContent = 9,
  kTable = 10,
  kObject = 11,
  kName = 12,
  kId = 13,
};

// Where an object's bytes are: in chunks, or in its record. And whether what is behind it follows.
constexpr uint8_t kInChunks = 0;
constexpr uint8_t kInRecord = 1;
constexpr uint8_t kWithBehind = 2;
// Whether a run's birth is given, or follows from where it is; and whether its bytes are behind,
// too. Without chunks there are only index and count.
constexpr uint8_t kBornElsewhere = 1;
constexpr uint8_t kHeldByBoth = 2;
constexpr uint8_t kWithoutChunks = 4;

constexpr size_t kMapHeadBytes = 1 + 8 + 8 + 2;
constexpr size_t kRunBornHereBytes = 1 + 8 + 8 + 2 + 8;
constexpr size_t kRunBornElsewhereBytes = kRunBornHereBytes + 8 + 8;
constexpr size_t kRunBehindBytes = 1 + 8 + 4;
constexpr size_t kBehindBytes = 8 + 8 + 4 + 1;
constexpr size_t kCreateHeadBytes = 1 + 8 + 16 + 8 + 2;
constexpr size_t kContentHeadBytes = 1 + 8 + 4 + 2;
constexpr size_t kObjectHeadBytes = 1 + 8 + 16 + 8 + 8 + 2 + 1;
constexpr size_t kInChunksBytes = 8 + 8 + 8;
constexpr size_t kContentInObjectBytes = 4 + 2;
static_assert(kMapHeadBytes + kRunBornElsewhereBytes <= kMaxMapOneBytes);
static_assert(kCreateHeadBytes + kMaxNameBytes <= kMaxCreateBytes);
static_assert(kObjectHeadBytes + kMaxNameBytes + kContentInObjectBytes + kMaxContentBytes +
                  kBehindBytes <=
              kMaxObjectBytes);

// There is one way to write a run.
[[nodiscard]] uint8_t form_of(uint64_t number, const Run& run) {
  if (!run.has_chunks()) return kWithoutChunks;
  const bool here = run.birth.owner == number && run.birth.index == run.index;
  return static_cast<uint8_t>((here ? 0 : kBornElsewhere) |
                              (run.held == Held::kBoth ? kHeldByBoth : 0));
}
[[nodiscard]] size_t bytes_of(uint8_t form) {
  if (form == kWithoutChunks) return kRunBehindBytes;
  return (form & kBornElsewhere) == 0 ? kRunBornHereBytes : kRunBornElsewhereBytes;
}

// What may not be written, and is a fault where it is read.
using Fault = std::optional<RecordFault>;

[[nodiscard]] bool within(uint64_t first, uint64_t count) {
  return first <= kMaxIndex && count <= kMaxIndex - first;
}
[[nodiscard]] Fault fault_of_object(uint64_t number, uint64_t size) {
  if (number == 0) return RecordFault::kNumber;
  if (size > kMaxSize) return RecordFault::kRange;
  return {};
}
[[nodiscard]] Fault fault_of_name(uint64_t number, std::string_view name) {
  if (number == 0) return RecordFault::kNumber;
  if (!good_name(name)) return RecordFault::kName;
  return {};
}
[[nodiscard]] Fault fault_of(const Run& run) {
  if (!run.has_chunks()) {
    const bool bare = run.chunk == 0 && run.birth == Birth{};
    if (bare && run.count > 0 && within(run.index, run.count)) return {};
    return RecordFault::kRun;
  }
  if (run.birth.owner == 0) return RecordFault::kNumber;
  if (run.count == 0 || run.count > kMaxRunChunks || !within(run.index, run.count) ||
      !within(run.chunk, run.count) || !within(run.birth.index, run.count)) {
    return RecordFault::kRun;
  }
  return {};
}
[[nodiscard]] Fault fault_of(const CloneRecord& record) {
  if (record.from == 0 || record.to == 0) return RecordFault::kNumber;
  if (record.size > kMaxSize || !within(record.from_index, record.count) ||
      !within(record.to_index, record.count)) {
    return RecordFault::kRange;
  }
  const bool overlap = record.from_index < record.to_index + record.count &&
                       record.to_index < record.from_index + record.count;
  if (record.from == record.to && overlap) return RecordFault::kRange;
  return {};
}
[[nodiscard]] Fault fault_of(const Behind& behind) {
  if (behind.version == 0 && behind.whole) return RecordFault::kBehind;
  if ((behind.next == 0) != (behind.tries == 0)) return RecordFault::kBehind;
  return {};
}
[[nodiscard]] Fault fault_of(const FlushedRecord& record) {
  if (record.number == 0) return RecordFault::kNumber;
  return fault_of(record.behind);
}
[[nodiscard]] Fault fault_of(const ContentRecord& record) {
  if (record.number == 0) return RecordFault::kNumber;
  if (record.content.empty() || record.content.size() > kMaxContentBytes) {
    return RecordFault::kContent;
  }
  return {};
}
[[nodiscard]] Fault fault_of(const ObjectRecord& record) {
  if (const Fault fault = fault_of_object(record.number, record.size)) return fault;
  if (!good_name(record.name)) return RecordFault::kName;
  if (record.chunks > kMaxIndex) return RecordFault::kRun;
  // Only with something behind are there runs without chunks.
  if (record.runs > (record.behind.version == 0 ? record.chunks : kMaxIndex)) {
    return RecordFault::kRun;
  }
  if (const Fault fault = fault_of(record.behind)) return fault;
  if (record.content.empty()) {
    if (record.crc != 0) return RecordFault::kContent;
  } else if (record.content.size() > kMaxContentBytes || record.runs != 0 ||
             record.content.size() != record.size) {
    return RecordFault::kContent;
  }
  return {};
}
[[nodiscard]] Fault fault_of(const NameRecord& record) {
  if (!record.name.empty() && record.id != ObjectId{}) return RecordFault::kName;
  return fault_of_name(record.number, record.name);
}
[[nodiscard]] Fault fault_of(const IdRecord& record) { return fault_of_object(record.number, 0); }

// Fields one behind the other, in room that was found to be enough.
class Fields {
 public:
  explicit Fields(uint8_t* p) : p_(p) {}
  Fields& operator<<(Type type) { return *this << static_cast<uint8_t>(type); }
  Fields& operator<<(const Behind& behind) {
    return *this << behind.version << behind.next << behind.tries
                 << static_cast<uint8_t>(behind.whole ? 1 : 0);
  }
  template <typename T>
    requires std::is_unsigned_v<T>
  Fields& operator<<(T value) {
    store_be<T>(p_, value);
    p_ += sizeof(T);
    return *this;
  }
  Fields& operator<<(ObjectId id) { return *this << id.high << id.low; }
  Fields& operator<<(std::string_view name) {
    *this << static_cast<uint16_t>(name.size());
    if (!name.empty()) std::memcpy(p_, name.data(), name.size());
    p_ += name.size();
    return *this;
  }

 private:
  uint8_t* p_;
};

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

[[nodiscard]] verbena::Result<Behind, RecordFault> read_behind(Parse& parse) {
  Behind behind;
  uint8_t whole = 0;
  if (!parse.take(behind.version, behind.next, behind.tries, whole))
    return fail(RecordFault::kShort);
  if (whole > 1) return fail(RecordFault::kBehind);
  behind.whole = whole == 1;
  if (const Fault fault = fault_of(behind)) return fail(*fault);
  return behind;
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
    const auto behind = read_behind(parse);
    if (!behind) return fail(behind.error());
    // There is one way to say that there is nothing.
    if (*behind == Behind{}) return fail(RecordFault::kBehind);
    r.behind = *behind;
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
      const auto behind = read_behind(parse);
      if (!behind) return fail(behind.error());
      r.behind = *behind;
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
  }
  return fail(RecordFault::kType);
}

}  // namespace

const char* name_of(RecordFault fault) {
  switch (fault) {
    case RecordFault::kShort:   return "short";
    case RecordFault::kType:    return "type";
    case RecordFault::kName:    return "name";
    case RecordFault::kRun:     return "run";
    case RecordFault::kNumber:  return "number";
    case RecordFault::kRange:   return "range";
    case RecordFault::kContent: return "content";
    case RecordFault::kBehind:  return "behind";
  }
  return "unknown";
}

uint8_t* RecordWriter::claim(size_t bytes) {
  if (bytes > left()) return nullptr;
  uint8_t* p = room_.data() + used_;
  used_ += bytes;
  return p;
}

bool RecordWriter::create(const CreateRecord& r) {
  VERBENA_CHECK(!fault_of_name(r.number, r.name));
  uint8_t* p = claim(kCreateHeadBytes + r.name.size());
  if (p == nullptr) return false;
  Fields(p) << Type::kCreate << r.number << r.id << r.time_ns << r.name;
  return true;
}

size_t RecordWriter::map(uint64_t number, uint64_t size, std::span<const Run> runs) {
  VERBENA_CHECK(!fault_of_object(number, size));
  runs = runs.first(std::min<size_t>(runs.size(), std::numeric_limits<uint16_t>::max()));
  size_t bytes = kMapHeadBytes;
  size_t count = 0;
  for (; count < runs.size(); ++count) {
    const size_t more = bytes_of(form_of(number, runs[count]));
    if (bytes + more > left()) break;
    bytes += more;
  }
  if (count == 0) return 0;
  Fields fields(claim(bytes));
  fields << Type::kMap << number << size << static_cast<uint16_t>(count);
  for (const Run& run : runs.first(count)) {
    VERBENA_CHECK(!fault_of(run));
    const uint8_t form = form_of(number, run);
    fields << form << run.index;
    if (!run.has_chunks()) {
      fields << run.count;
      continue;
    }
    fields << run.chunk << static_cast<uint16_t>(run.count) << run.birth.txn;
    if ((form & kBornElsewhere) != 0) fields << run.birth.owner << run.birth.index;
  }
  return count;
}

bool RecordWriter::truncate(const TruncateRecord& r) {
  VERBENA_CHECK(!fault_of_object(r.number, r.size));
  return small(Type::kTruncate, r.number, r.size);
}

bool RecordWriter::clone(const CloneRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  return small(Type::kClone, r.from, r.from_index, r.to, r.to_index, r.count, r.size);
}

bool RecordWriter::remove(const DeleteRecord& r) {
  VERBENA_CHECK(!fault_of_object(r.number, 0));
  return small(Type::kDelete, r.number);
}

bool RecordWriter::rename(const RenameRecord& r) {
  VERBENA_CHECK(!fault_of_name(r.number, r.name));
  uint8_t* p = claim(1 + 8 + 2 + r.name.size());
  if (p == nullptr) return false;
  Fields(p) << Type::kRename << r.number << r.name;
  return true;
}

bool RecordWriter::flushed(const FlushedRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  uint8_t* p = claim(1 + 8 + kBehindBytes);
  if (p == nullptr) return false;
  Fields(p) << Type::kFlushed << r.number << r.behind;
  return true;
}

bool RecordWriter::commit(const CommitRecord& r) {
  return small(Type::kCommit, r.txn, r.watermark, r.time_ns);
}

bool RecordWriter::table(const TableRecord& r) {
  VERBENA_CHECK(!fault_of_object(r.next_number, 0));
  return small(Type::kTable, r.next_number, r.chunks[0], r.chunks[1], r.chunks[2], r.chunks[3]);
}

bool RecordWriter::content(const ContentRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  uint8_t* p = claim(kContentHeadBytes + r.content.size());
  if (p == nullptr) return false;
  Fields(p) << Type::kContent << r.number << r.crc << r.content;
  return true;
}

bool RecordWriter::object(const ObjectRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  const bool here = !r.content.empty();
  const bool behind = r.behind != Behind{};
  uint8_t* p = claim(kObjectHeadBytes + r.name.size() + (behind ? kBehindBytes : 0) +
                     (here ? kContentInObjectBytes + r.content.size() : kInChunksBytes));
  if (p == nullptr) return false;
  Fields fields(p);
  fields << Type::kObject << r.number << r.id << r.created_ns << r.modified_ns << r.name;
  fields << static_cast<uint8_t>((here ? kInRecord : kInChunks) | (behind ? kWithBehind : 0));
  if (behind) fields << r.behind;
  if (here) {
    fields << r.crc << r.content;
  } else {
    fields << r.size << r.runs << r.chunks;
  }
  return true;
}

bool RecordWriter::name(const NameRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  uint8_t* p = claim(1 + 2 + r.name.size() + 8 + (r.name.empty() ? 16 : 0));
  if (p == nullptr) return false;
  Fields fields(p);
  fields << Type::kName << r.name << r.number;
  if (r.name.empty()) fields << r.id;
  return true;
}

bool RecordWriter::id(const IdRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  uint8_t* p = claim(1 + 16 + 8);
  if (p == nullptr) return false;
  Fields(p) << Type::kId << r.id << r.number;
  return true;
}

template <typename Type, typename... Words>
bool RecordWriter::small(Type type, Words... words) {
  constexpr size_t kBytes = 1 + (sizeof(Words) + ...);
  static_assert(kBytes <= kMaxSmallBytes);
  uint8_t* p = claim(kBytes);
  if (p == nullptr) return false;
  ((Fields(p) << type) << ... << words);
  return true;
}

verbena::Result<Record, RecordFault> RecordReader::next() {
  VERBENA_CHECK(!done());
  Parse parse(rest_.subspan(1));
  auto record = read_body(static_cast<Type>(rest_[0]), parse);
  if (record) rest_ = parse.rest();
  return record;
}

}  // namespace verbena::store
