// SPDX-License-Identifier: Apache-2.0
//   stat -- one request is enough: read one byte more than there are -- it has grown: again
//        `- it is longer: clone it to a draft, which nobody changes; read that in parts, remove it
#include <random>
#include <utility>

#include <fmt/format.h>

#include "client/parts.h"
#include "client/whole.h"
#include "store/drafts.h"

namespace verbena::client {
namespace {

constexpr int kMostReads = 8;

class Get : public std::enable_shared_from_this<Get> {
 public:
  Get(Client& client, std::shared_ptr<Whole> whole, Done done)
      : client_(client), whole_(std::move(whole)), done_(std::move(done)) {
    std::random_device random;
    draft_ = {store::kDraftHigh, uint64_t{random()} << 32 | random()};
  }

  void stat(const ObjectRef& object) {
    client_.stat_async(object, [self = shared_from_this()](const Result<ObjectInfo>& info) {
      if (!info) return self->done_(fail(info.error()));
      info->size < self->client_.limits().io_bytes ? self->read_at_once(info->id, info->size)
                                                   : self->clone(info->id);
    });
  }

 private:
  void read_at_once(ObjectId object, uint64_t size) {
    if (!make_room(size + 1)) return done_(fail(no_memory(size)));
    const std::span<uint8_t> room(whole_->memory.get(), size + 1);
    client_.read_async(ObjectRef::by(object), 0, Client::Memory(&room, 1), {},
                       [self = shared_from_this(), object, size](const Result<Transferred>& read) {
                         if (!read || read->bytes <= size) return self->finish(read);
                         if (++self->reads_ < kMostReads) return self->stat(ObjectRef::by(object));
                         self->done_(fail(Error{Code::kAnswered, protocol::Status::kConflict,
                                                "the object grows while it is read"}));
                       });
  }
  void clone(ObjectId object) {
    client_.clone_async(ObjectRef::by(object), ObjectRef::by(draft_), {},
                        [self = shared_from_this(), object](const Result<ObjectId>& made) {
                          // What cannot be changed needs no clone.
                          const bool read_only = !made && made.error().code == Code::kAnswered &&
                                                 made.error().status == protocol::Status::kReadOnly;
                          if (!made && !read_only) return self->done_(fail(made.error()));
                          self->cloned_ = !read_only;
                          self->stat_and_read(read_only ? object : self->draft_);
                        });
  }
  void stat_and_read(ObjectId object) {
    client_.stat_async(
        ObjectRef::by(object), [self = shared_from_this(), object](const Result<ObjectInfo>& info) {
          if (!info) return self->finish(fail(info.error()));
          if (!self->make_room(info->size)) return self->finish(fail(no_memory(info->size)));
          read_parts(self->client_, ObjectRef::by(object), 0,
                     std::span<uint8_t>(self->whole_->memory.get(), info->size), {},
                     self->client_.limits().io_bytes,
                     [self](const Result<Transferred>& read) { self->finish(read); });
        });
  }
  void finish(Result<Transferred> read) {
    const bool unanswered = !read && read.error().code != Code::kAnswered;
    if (!cloned_ || unanswered) return tell(read);
    client_.remove_async(ObjectRef::by(draft_), [self = shared_from_this(), read = std::move(read)](
                                                    const Result<void>&) { self->tell(read); });
  }
  void tell(const Result<Transferred>& read) {
    if (read) whole_->transferred = *read;
    done_(read);
  }
  [[nodiscard]] bool make_room(uint64_t bytes) {
    whole_->memory.reset(static_cast<uint8_t*>(std::malloc(bytes == 0 ? 1 : bytes)));
    return whole_->memory != nullptr;
  }
  [[nodiscard]] static Error no_memory(uint64_t bytes) {
    return {Code::kAnswered, protocol::Status::kNoMemory,
            fmt::format("this process has no memory for {} bytes", bytes)};
  }

  Client& client_;
  const std::shared_ptr<Whole> whole_;
  const Done done_;
  ObjectId draft_{};
  bool cloned_ = false;
  int reads_ = 0;
};

}  // namespace

void get_whole(Client& client, const ObjectRef& object, std::shared_ptr<Whole> whole, Done done) {
  std::make_shared<Get>(client, std::move(whole), std::move(done))->stat(object);
}

Result<Whole> get_whole(Client& client, const ObjectRef& object) {
  const auto whole = std::make_shared<Whole>();
  const auto got = client.await<Transferred>(
      [&](Done done) { get_whole(client, object, whole, std::move(done)); });
  if (!got) return fail(got.error());
  return std::move(*whole);
}

}  // namespace verbena::client
