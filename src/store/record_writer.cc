// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "base/endian.h"
#include "store/record.h"
#include "store/record_encoding.h"

namespace verbena::store {
namespace {

using namespace encoding;  // NOLINT(google-build-using-namespace)

// Fields one behind the other, in room that was found to be enough.
class Fields {
 public:
  explicit Fields(uint8_t* p) : p_(p) {}
  Fields& operator<<(Type type) { return *this << static_cast<uint8_t>(type); }
  Fields& behind(const Behind& behind, const std::optional<UnderView>& under) {
    *this << behind.version << behind.next << behind.tries
          << static_cast<uint8_t>((behind.whole ? kWhole : 0) | (under ? kUnder : 0));
    if (!under) return *this;
    return *this << under->own.version << under->own.next << under->own.tries << under->id
                 << under->name;
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

}  // namespace

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
  uint8_t* p = claim(1 + 8 + bytes_of(r.under));
  if (p == nullptr) return false;
  (Fields(p) << Type::kFlushed << r.number).behind(r.behind, r.under);
  return true;
}

bool RecordWriter::take(const TakeRecord& r) {
  VERBENA_CHECK(!fault_of(r));
  return small(Type::kTake, r.from, r.to);
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
  uint8_t* p = claim(kObjectHeadBytes + r.name.size() + (behind ? bytes_of(r.under) : 0) +
                     (here ? kContentInObjectBytes + r.content.size() : kInChunksBytes));
  if (p == nullptr) return false;
  Fields fields(p);
  fields << Type::kObject << r.number << r.id << r.created_ns << r.modified_ns << r.name;
  fields << static_cast<uint8_t>((here ? kInRecord : kInChunks) | (behind ? kWithBehind : 0));
  if (behind) fields.behind(r.behind, r.under);
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

}  // namespace verbena::store
