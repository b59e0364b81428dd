// SPDX-License-Identifier: Apache-2.0
#include "client/listing.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/block_sums.h"
#include "store/drafts.h"

namespace verbena::client {
namespace {

constexpr uint64_t kPageObjects = 512;

class Listing : public std::enable_shared_from_this<Listing> {
 public:
  Listing(Client& client, ListOptions options, Then<Page> done)
      : client_(client), options_(std::move(options)), done_(std::move(done)) {
    if (options_.limit == 0) options_.limit = UINT64_MAX;
    after_ = options_.after;
    // Behind an id that no object has, of the first name with the prefix.
    if (!options_.prefix.empty() && (!after_ || after_->name < options_.prefix)) {
      after_ = ObjectInfo{.id = {}, .name = options_.prefix};
    }
  }

  void next() {
    const uint64_t wanted = std::min(options_.limit - page_.objects.size(), kPageObjects);
    client_.list_async(after_ ? &*after_ : nullptr, static_cast<uint16_t>(wanted),
                       [self = shared_from_this()](Result<Page>&& page) {
                         if (!page) return self->done_(fail(page.error()));
                         self->take(std::move(*page));
                       });
  }

 private:
  void take(Page page) {
    bool more = page.more && !page.objects.empty();
    if (more) after_ = page.objects.back();
    for (ObjectInfo& object : page.objects) {
      if (!object.name.starts_with(options_.prefix)) {
        more = false;  // names are in order
        break;
      }
      if (!store::is_hidden(object.id)) page_.objects.push_back(std::move(object));
    }
    if (more && page_.objects.size() < options_.limit) return next();
    page_.more = more;
    done_(std::move(page_));
  }

  Client& client_;
  ListOptions options_;
  const Then<Page> done_;
  std::optional<ObjectInfo> after_;
  Page page_;
};

// The server does not look at more than so much at once.
class RangeCrc : public std::enable_shared_from_this<RangeCrc> {
 public:
  RangeCrc(Client& client, const ObjectRef& object, uint64_t offset, uint64_t length,
           Then<StoredCrc> done)
      : client_(client),
        name_(object.name),
        object_(object),
        offset_(offset),
        length_(length == 0 ? UINT64_MAX - offset : length),
        done_(std::move(done)) {
    object_.name = name_;
  }

  void next() {
    client_.stored_crc_async(object_, offset_ + all_.bytes, length_ - all_.bytes,
                             [self = shared_from_this()](const Result<StoredCrc>& part) {
                               part ? self->take(*part) : self->done_(fail(part.error()));
                             });
  }

 private:
  void take(const StoredCrc& part) {
    if (part.bytes > length_ - all_.bytes) {
      return done_(fail(Error{Code::kCorrupted, {}, "the CRC is that of a longer range"}));
    }
    all_.crc = all_.bytes == 0 ? part.crc : crc32_msb_combine(all_.crc, part.crc, part.bytes);
    all_.bytes += part.bytes;
    if (part.bytes == 0 || all_.bytes == length_) return done_(all_);
    next();
  }

  Client& client_;
  const std::string name_;
  ObjectRef object_;
  const uint64_t offset_;
  const uint64_t length_;
  const Then<StoredCrc> done_;
  StoredCrc all_{};
};

}  // namespace

void list_objects(Client& client, ListOptions options, Then<Page> done) {
  std::make_shared<Listing>(client, std::move(options), std::move(done))->next();
}
Result<Page> list_objects(Client& client, const ListOptions& options) {
  return client.await<Page>([&](auto done) { list_objects(client, options, std::move(done)); });
}

void range_crc(Client& client, const ObjectRef& object, uint64_t offset, uint64_t length,
               Then<StoredCrc> done) {
  std::make_shared<RangeCrc>(client, object, offset, length, std::move(done))->next();
}
Result<StoredCrc> range_crc(Client& client, const ObjectRef& object, uint64_t offset,
                            uint64_t length) {
  return client.await<StoredCrc>(
      [&](auto done) { range_crc(client, object, offset, length, std::move(done)); });
}

}  // namespace verbena::client
