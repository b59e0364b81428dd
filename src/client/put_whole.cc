// SPDX-License-Identifier: Apache-2.0
//   create a draft -> write it -> is there such an object? -- yes: replace its content by the
//   draft's
//                                                          `- no: clone the draft, remove it
// Others may make or remove the object at the same moment: then it looks again. A server that was
// restarted has removed the draft: then it begins with another one.
#include <random>
#include <string>
#include <utility>

#include "client/parts.h"
#include "client/whole.h"
#include "store/drafts.h"

namespace verbena::client {
namespace {

constexpr int kMostTries = 64;  // to be faster than others
constexpr int kMostDrafts = 4;  // that are written, of servers that are restarted

bool was_answered(const Error& error, protocol::Status status) {
  return error.code == Code::kAnswered && error.status == status;
}

class Put : public std::enable_shared_from_this<Put> {
 public:
  Put(Client& client, const ObjectRef& object, std::span<const uint8_t> bytes,
      const PutOptions& options, Done done)
      : client_(client),
        name_(object.name),
        object_(object),
        bytes_(bytes),
        options_(options),
        done_(std::move(done)) {
    object_.name = name_;
  }

  void create() {
    std::random_device random;
    draft_ = {store::kDraftHigh, uint64_t{random()} << 32 | random()};
    client_.create_async({}, draft_, [self = shared_from_this()](const Result<ObjectId>& made) {
      if (made) return self->write();
      // It may be there or not: nobody sees it, and the server removes it.
      const bool in_doubt = made.error().code == Code::kUnknown;
      if (in_doubt && ++self->drafts_ < kMostDrafts) return self->create();
      if (!in_doubt) return self->done_(fail(made.error()));
      self->done_(fail(
          Error{Code::kUnreachable, {}, "the server did not answer; the object is unchanged"}));
    });
  }

 private:
  // Nobody else writes to the draft: it may be written twice.
  void write() {
    write_parts(client_, ObjectRef::by(draft_), 0, bytes_,
                {.repeatable = true, .crc = options_.crc}, client_.limits().io_bytes,
                [self = shared_from_this()](const Result<Transferred>& written) {
                  if (!written) return self->begin_again(written.error());
                  self->transferred_ = *written;
                  self->place();
                });
  }
  void place() {
    client_.stat_async(object_, [self = shared_from_this()](const Result<ObjectInfo>& found) {
      if (found) return self->replace(found->id);
      if (!was_answered(found.error(), protocol::Status::kNotFound)) {
        return self->give_up(found.error());
      }
      self->clone();
    });
  }
  void replace(ObjectId object) {
    if (options_.only_new) {
      return give_up({Code::kAnswered, protocol::Status::kExists, "the object exists already"});
    }
    client_.replace_async(ObjectRef::by(object), ObjectRef::by(draft_),
                          [self = shared_from_this(), object](const Result<void>& replaced) {
                            if (!replaced) return self->look_again(replaced.error());
                            self->transferred_.object = object;
                            self->flush();
                          });
  }
  void clone() {
    client_.clone_async(ObjectRef::by(draft_), object_, {},
                        [self = shared_from_this()](const Result<ObjectId>& made) {
                          if (!made) return self->look_again(made.error());
                          self->transferred_.object = *made;
                          self->remove_draft([self](const Result<void>&) { self->flush(); });
                        });
  }
  // Somebody has made or removed the object meanwhile, or the draft is gone.
  void look_again(const Error& error) {
    const bool outrun = was_answered(error, protocol::Status::kNotFound) ||
                        was_answered(error, protocol::Status::kExists);
    if (!outrun || ++tries_ == kMostTries) return give_up(error);
    client_.stat_async(ObjectRef::by(draft_),
                       [self = shared_from_this()](const Result<ObjectInfo>& draft) {
                         draft ? self->place() : self->begin_again(draft.error());
                       });
  }
  void begin_again(const Error& error) {
    const bool gone = was_answered(error, protocol::Status::kNotFound);
    if (!gone || ++drafts_ == kMostDrafts) return give_up(error);
    create();
  }
  void flush() {
    if (!options_.durable) return done_(transferred_);
    client_.flush_async(
        ObjectRef::by(transferred_.object), 0, 0,
        [self = shared_from_this()](const Result<void>& flushed) {
          // Somebody may have removed it since.
          const bool over = flushed || was_answered(flushed.error(), protocol::Status::kNotFound);
          over ? self->done_(self->transferred_) : self->done_(fail(flushed.error()));
        });
  }
  // A draft that cannot be removed now, the server removes later.
  void give_up(const Error& error) {
    if (error.code != Code::kAnswered && error.code != Code::kCorrupted) return done_(fail(error));
    remove_draft(
        [self = shared_from_this(), error](const Result<void>&) { self->done_(fail(error)); });
  }
  void remove_draft(Then<void> then) {
    client_.remove_async(ObjectRef::by(draft_), std::move(then));
  }

  Client& client_;
  const std::string name_;
  ObjectRef object_;
  const std::span<const uint8_t> bytes_;
  const PutOptions options_;
  const Done done_;
  ObjectId draft_{};
  Transferred transferred_{};
  int tries_ = 0;
  int drafts_ = 0;  // that were lost
};

}  // namespace

void put_whole(Client& client, const ObjectRef& object, std::span<const uint8_t> bytes,
               const PutOptions& options, Done done) {
  std::make_shared<Put>(client, object, bytes, options, std::move(done))->create();
}

Result<Transferred> put_whole(Client& client, const ObjectRef& object,
                              std::span<const uint8_t> bytes, const PutOptions& options) {
  return client.await<Transferred>(
      [&](Done done) { put_whole(client, object, bytes, options, std::move(done)); });
}

}  // namespace verbena::client
