// SPDX-License-Identifier: Apache-2.0
// Writes records into consecutive chunks of the log or of a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "store/chunk.h"
#include "store/record.h"

namespace verbena::store {

class RecordStream {
 public:
  virtual ~RecordStream() = default;
  RecordStream() = default;
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  void create(const CreateRecord& record) {
    put([&](RecordWriter& to) { return to.create(record); });
  }
  void map(uint64_t number, uint64_t size, std::span<const Run> runs) {
    while (!runs.empty()) {
      size_t done = 0;
      put([&](RecordWriter& to) { return (done = to.map(number, size, runs)) > 0; });
      runs = runs.subspan(done);
    }
  }
  void truncate(const TruncateRecord& record) {
    put([&](RecordWriter& to) { return to.truncate(record); });
  }
  void clone(const CloneRecord& record) {
    put([&](RecordWriter& to) { return to.clone(record); });
  }
  void remove(const DeleteRecord& record) {
    put([&](RecordWriter& to) { return to.remove(record); });
  }
  void rename(const RenameRecord& record) {
    put([&](RecordWriter& to) { return to.rename(record); });
  }
  void commit(const CommitRecord& record) {
    put([&](RecordWriter& to) { return to.commit(record); });
  }
  void flushed(const FlushedRecord& record) {
    put([&](RecordWriter& to) { return to.flushed(record); });
  }
  void take(const TakeRecord& record) {
    put([&](RecordWriter& to) { return to.take(record); });
  }
  void content(const ContentRecord& record) {
    put([&](RecordWriter& to) { return to.content(record); });
  }
  void table(const TableRecord& record) {
    put([&](RecordWriter& to) { return to.table(record); });
  }
  void object(const ObjectRecord& record) {
    put([&](RecordWriter& to) { return to.object(record); });
  }
  void name(const NameRecord& record) {
    put([&](RecordWriter& to) { return to.name(record); });
  }
  void id(const IdRecord& record) {
    put([&](RecordWriter& to) { return to.id(record); });
  }

 protected:
  [[nodiscard]] size_t used() const { return writer_.used(); }
  // The open chunk's data, zeros behind what is used.
  [[nodiscard]] std::span<const uint8_t, kDataBytes> data() const { return buffer_; }
  // Begins a new chunk.
  void reset() {
    std::memset(buffer_.data(), 0, writer_.used());
    writer_ = RecordWriter(buffer_);
  }
  // The open chunk is full: writes it away and resets.
  virtual void full() = 0;

 private:
  template <typename Put>
  void put(Put put) {
    if (put(writer_)) return;
    full();
    static_cast<void>(put(writer_));  // an empty chunk has room for any
  }

  std::array<uint8_t, kDataBytes> buffer_{};
  RecordWriter writer_{buffer_};
};

}  // namespace verbena::store
