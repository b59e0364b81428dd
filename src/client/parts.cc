// SPDX-License-Identifier: Apache-2.0
#include "client/parts.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/block_sums.h"
#include "base/mutex.h"

namespace verbena::client {
namespace {

// Parts under way: what the memory cache keeps registered, and less than a window.
constexpr size_t kPartsAtOnce = 64;

// What both kinds have in common, of something that does not fit one request. Completions of parts
// come from several threads.
class Parts : public std::enable_shared_from_this<Parts> {
 public:
  Parts(Client& client, const ObjectRef& object, uint64_t bytes, Done done)
      : client_(client),
        name_(object.name),
        bytes_(bytes),
        done_(std::move(done)),
        object_(object) {
    object_.name = name_;
    part_bytes_ = std::min(kPartBytes, client.limits().io_bytes);
    count_ = bytes / part_bytes_ + (bytes % part_bytes_ != 0 ? 1 : 0);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  virtual ~Parts() = default;

  // An exception would leave the driver of the connection in the middle of its work: a put calls
  // this when the answer to another request has come.
  [[nodiscard]] bool make_room() noexcept {
    try {
      const MutexLock lock(mutex_);
      results_.resize(count_);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void refuse(Error error) { end(fail(std::move(error))); }
  // Begins as many parts as there may be.
  void go_on() {
    for (;;) {
      size_t index = 0;
      ObjectRef object;
      {
        const MutexLock lock(mutex_);
        const size_t most = object_.kind == ObjectRef::Kind::kId ? kPartsAtOnce : 1;
        if (stopped_ || begun_ == count_ || open_ >= most) return;
        index = begun_++;
        ++open_;
        object = object_;
      }
      begin(object, index, [self = shared_from_this(), index](const Result<Transferred>& result) {
        self->on_part(index, result);
      });
    }
  }

 protected:
  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] uint64_t begin_of(size_t index) const { return index * part_bytes_; }
  [[nodiscard]] uint64_t length_of(size_t index) const {
    return std::min(part_bytes_, bytes_ - begin_of(index));
  }
  virtual void begin(const ObjectRef& object, size_t index, Done done) = 0;
  void end(const Result<Transferred>& result) { done_(result); }

  Client& client_;

 private:
  void on_part(size_t index, const Result<Transferred>& result) {
    bool over = false;
    {
      const MutexLock lock(mutex_);
      results_[index] = result;
      --open_;
      if (!result || result->bytes < length_of(index)) {
        stopped_ = true;
      } else {
        object_ = ObjectRef::by(result->object);
      }
      over = open_ == 0 && (stopped_ || begun_ == count_);
    }
    over ? end(joined()) : go_on();
  }
  // Of the parts that were begun.
  [[nodiscard]] Result<Transferred> joined() {
    const MutexLock lock(mutex_);
    Transferred all;
    for (size_t index = 0; index < begun_; ++index) {
      const auto& part = results_[index];
      if (!part) return part;
      all.crc = index == 0 ? part->crc : crc32_msb_combine(all.crc, part->crc, part->bytes);
      all.bytes += part->bytes;
      all.object = part->object;
      if (part->bytes < length_of(index)) break;
    }
    return all;
  }

  const std::string name_;
  const uint64_t bytes_;
  uint64_t part_bytes_ = 0;
  size_t count_ = 0;
  const Done done_;
  Mutex mutex_;
  ObjectRef object_ VERBENA_GUARDED_BY(mutex_);
  std::vector<Result<Transferred>> results_ VERBENA_GUARDED_BY(mutex_);
  size_t begun_ VERBENA_GUARDED_BY(mutex_) = 0;
  size_t open_ VERBENA_GUARDED_BY(mutex_) = 0;
  bool stopped_ VERBENA_GUARDED_BY(mutex_) = false;
};

class ReadParts final : public Parts {
 public:
  ReadParts(Client& client, const ObjectRef& object, uint64_t offset, std::span<uint8_t> to,
            const ReadOptions& options, Done done)
      : Parts(client, object, to.size(), std::move(done)),
        offset_(offset),
        to_(to),
        options_(options) {}

 private:
  void begin(const ObjectRef& object, size_t index, Done done) override {
    const auto part = to_.subspan(begin_of(index), length_of(index));
    client_.read_async(object, offset_ + begin_of(index), Client::Memory(&part, 1), options_,
                       std::move(done));
  }

  const uint64_t offset_;
  const std::span<uint8_t> to_;
  const ReadOptions options_;
};

class WriteParts final : public Parts {
 public:
  WriteParts(Client& client, const ObjectRef& object, uint64_t offset,
             std::span<const uint8_t> from, const WriteOptions& options, Done done)
      : Parts(client, object, from.size(), std::move(done)),
        offset_(offset),
        from_(from),
        options_(options) {}

  // Whether the bytes have the CRC that the caller gave.
  [[nodiscard]] bool check() {
    if (!options_.crc) return true;
    uint32_t all = 0;
    for (size_t index = 0; index < count(); ++index) {
      const uint32_t crc = crc32_finish(crc32_msb_update(kCrc32Start, part(index)));
      all = index == 0 ? crc : crc32_msb_combine(all, crc, length_of(index));
      crcs_.push_back(crc);
    }
    return all == *options_.crc;
  }

 private:
  [[nodiscard]] std::span<const uint8_t> part(size_t index) const {
    return from_.subspan(begin_of(index), length_of(index));
  }
  void begin(const ObjectRef& object, size_t index, Done done) override {
    const auto bytes = part(index);
    WriteOptions options = options_;
    if (!crcs_.empty()) options.crc = crcs_[index];
    client_.write_async(object, offset_ + begin_of(index), Client::ConstMemory(&bytes, 1), options,
                        std::move(done));
  }

  const uint64_t offset_;
  const std::span<const uint8_t> from_;
  const WriteOptions options_;
  std::vector<uint32_t> crcs_;  // of the parts, if the caller gave that of all
};

bool fits(const Client& client, uint64_t bytes, uint64_t whole_bytes) {
  return bytes <= std::min(whole_bytes, client.limits().io_bytes);
}
Error no_memory(uint64_t bytes) {
  return {Code::kAnswered, protocol::Status::kNoMemory,
          fmt::format("this process has no memory for the parts of {} bytes", bytes)};
}
Error wrong_crc() {
  return {Code::kCorrupted, {}, "the data does not have the CRC that was given with it"};
}
// Parts behind the last offset would begin at 0 again.
bool ends_too_far(uint64_t offset, uint64_t bytes) { return bytes > UINT64_MAX - offset; }
Error too_far(uint64_t offset, uint64_t bytes) {
  return {Code::kInvalid, {}, fmt::format("{} bytes at offset {} end past 2^64", bytes, offset)};
}

}  // namespace

void read_parts(Client& client, const ObjectRef& object, uint64_t offset, std::span<uint8_t> to,
                const ReadOptions& options, uint64_t whole_bytes, Done done) {
  if (ends_too_far(offset, to.size())) return done(fail(too_far(offset, to.size())));
  if (fits(client, to.size(), whole_bytes)) {
    return client.read_async(object, offset, Client::Memory(&to, 1), options, std::move(done));
  }
  const auto parts =
      std::make_shared<ReadParts>(client, object, offset, to, options, std::move(done));
  parts->make_room() ? parts->go_on() : parts->refuse(no_memory(to.size()));
}

void write_parts(Client& client, const ObjectRef& object, uint64_t offset,
                 std::span<const uint8_t> from, const WriteOptions& options, uint64_t whole_bytes,
                 Done done) {
  if (ends_too_far(offset, from.size())) return done(fail(too_far(offset, from.size())));
  if (fits(client, from.size(), whole_bytes)) {
    return client.write_async(object, offset, Client::ConstMemory(&from, 1), options,
                              std::move(done));
  }
  const auto parts =
      std::make_shared<WriteParts>(client, object, offset, from, options, std::move(done));
  if (!parts->make_room()) return parts->refuse(no_memory(from.size()));
  parts->check() ? parts->go_on() : parts->refuse(wrong_crc());
}

Result<Transferred> read_parts(Client& client, const ObjectRef& object, uint64_t offset,
                               std::span<uint8_t> to, const ReadOptions& options,
                               uint64_t whole_bytes) {
  if (ends_too_far(offset, to.size())) return fail(too_far(offset, to.size()));
  if (fits(client, to.size(), whole_bytes)) return client.read(object, offset, to, options);
  return client.await<Transferred>([&](Done done) {
    read_parts(client, object, offset, to, options, whole_bytes, std::move(done));
  });
}

Result<Transferred> write_parts(Client& client, const ObjectRef& object, uint64_t offset,
                                std::span<const uint8_t> from, const WriteOptions& options,
                                uint64_t whole_bytes) {
  if (ends_too_far(offset, from.size())) return fail(too_far(offset, from.size()));
  if (fits(client, from.size(), whole_bytes)) return client.write(object, offset, from, options);
  return client.await<Transferred>([&](Done done) {
    write_parts(client, object, offset, from, options, whole_bytes, std::move(done));
  });
}

}  // namespace verbena::client
