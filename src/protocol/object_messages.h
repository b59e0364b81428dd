// SPDX-License-Identifier: Apache-2.0
// Requests about objects that carry no user data, and their responses. A request begins with its id
// and `oldest` (all ids below it: their responses have arrived, or the client does not wait for
// them); a response with the id, the status and a sentence for people, empty if the status is kOk.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/message.h"

namespace verbena::protocol {

// A response with no more than that.
template <uint64_t kNumber>
struct Ack {
  static constexpr MessageType kType{kNumber};
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  bool operator==(const Ack&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
  }
};

struct FlushResponse : Ack<104> {
  static constexpr const char* kName = "FLUSH_ACK";
};
// All that was acknowledged before is durable when the response says so. An implementation may
// flush more than the range. Length 0: to the end; the default object, if there is none:
// everything.
struct FlushRequest {
  static constexpr MessageType kType{103};
  static constexpr const char* kName = "FLUSH";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = FlushResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const FlushRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object, self.offset, self.length);
  }
};

struct CreateResponse {
  static constexpr MessageType kType{106};
  static constexpr const char* kName = "CREATE_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  ObjectId object{};
  bool operator==(const CreateResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.object);
  }
};
struct CreateRequest {
  static constexpr MessageType kType{105};
  static constexpr const char* kName = "CREATE";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = CreateResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectId object{};        // 0:0: the server chooses a random one
  std::string_view name{};  // empty: none
  bool operator==(const CreateRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object);
    f.name(self.name);
  }
};

struct CowResponse {
  static constexpr MessageType kType{112};
  static constexpr const char* kName = "COW_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  ObjectId object{};  // the destination
  bool operator==(const CowResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.object);
  }
};
// A range of one object becomes a range of another, without a copy of the data.
struct CowRequest {
  static constexpr MessageType kType{111};
  static constexpr const char* kName = "COW";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = CowResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef from{};
  ObjectRef to{};
  uint64_t from_offset = 0;
  uint64_t length = 0;  // 0: to the end of `from`
  uint64_t to_offset = 0;
  // `to` may exist, and its range is replaced; otherwise it is created, with to_name if it is given
  // by id.
  bool allow_existing = false;
  std::string_view to_name{};
  bool operator==(const CowRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.from, self.to, self.from_offset, self.length, self.to_offset,
      self.allow_existing);
    f.name(self.to_name);
  }
};

struct DeleteResponse : Ack<114> {
  static constexpr const char* kName = "DELETE_ACK";
};
struct DeleteRequest {
  static constexpr MessageType kType{113};
  static constexpr const char* kName = "DELETE";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = DeleteResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  bool operator==(const DeleteRequest&) const = default;
  static void fields(auto& self, auto& f) { f(self.id, self.oldest, self.object); }
};

struct RenameResponse : Ack<116> {
  static constexpr const char* kName = "RENAME_ACK";
};
struct RenameRequest {
  static constexpr MessageType kType{115};
  static constexpr const char* kName = "RENAME";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = RenameResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  std::string_view name{};  // empty: none any more
  bool operator==(const RenameRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object);
    f.name(self.name);
  }
};

struct TruncateResponse : Ack<118> {
  static constexpr const char* kName = "TRUNCATE_ACK";
};
struct TruncateRequest {
  static constexpr MessageType kType{117};
  static constexpr const char* kName = "TRUNCATE";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = TruncateResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  uint64_t size = 0;
  bool operator==(const TruncateRequest&) const = default;
  static void fields(auto& self, auto& f) { f(self.id, self.oldest, self.object, self.size); }
};

struct ReplaceResponse : Ack<124> {
  static constexpr const char* kName = "REPLACE_ACK";
};
// The object's bytes are those of `by` now, and `by` is gone, in one step.
struct ReplaceRequest {
  static constexpr MessageType kType{123};
  static constexpr const char* kName = "REPLACE";
  static constexpr Effect kEffect = Effect::kStore;
  using Response = ReplaceResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  ObjectRef by{};
  bool operator==(const ReplaceRequest&) const = default;
  static void fields(auto& self, auto& f) { f(self.id, self.oldest, self.object, self.by); }
};

// What STAT and LIST say about an object.
struct ObjectEntry {
  static constexpr size_t kMinBytes = 16 + 6 * 8 + 2;
  ObjectId object{};
  uint64_t size = 0;      // bytes
  uint64_t chunks = 0;    // mapped, shared ones too
  uint64_t segments = 0;  // runs they lie in
  uint64_t content = 0;   // bytes that take no chunk, since they are few
  uint64_t created_ns = 0;
  uint64_t modified_ns = 0;
  std::string_view name{};  // empty: none
  [[nodiscard]] size_t bytes() const { return kMinBytes + name.size(); }
  bool operator==(const ObjectEntry&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.object, self.size, self.chunks, self.segments, self.content, self.created_ns,
      self.modified_ns);
    f.name(self.name);
  }
};

struct StatResponse {
  static constexpr MessageType kType{120};
  static constexpr const char* kName = "STAT_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  ObjectEntry entry{};
  bool operator==(const StatResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.entry);
  }
};
// Also the way to learn the id of an object from its name.
struct StatRequest {
  static constexpr MessageType kType{119};
  static constexpr const char* kName = "STAT";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = StatResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  ObjectRef object{};
  // The object becomes the default one of this session.
  bool make_default = false;
  bool operator==(const StatRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.object, self.make_default);
  }
};

struct ListResponse {
  static constexpr MessageType kType{122};
  static constexpr const char* kName = "LIST_ACK";
  uint64_t id = 0;
  Status status = Status::kOk;
  std::string_view detail{};
  bool more = false;  // go on behind the last entry
  std::vector<ObjectEntry> entries{};
  bool operator==(const ListResponse&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.status);
    f.text(self.detail);
    f(self.more);
    f.list(self.entries);
  }
};
// In order of name, then id; the nameless first.
struct ListRequest {
  static constexpr MessageType kType{121};
  static constexpr const char* kName = "LIST";
  static constexpr Effect kEffect = Effect::kNone;
  using Response = ListResponse;
  uint64_t id = 0;
  uint64_t oldest = 0;
  bool resume = false;  // behind after_name and after_id; otherwise from the first on
  std::string_view after_name{};
  ObjectId after_id{};
  uint16_t limit = 0;  // entries; 0: as many as fit the inline limit
  bool operator==(const ListRequest&) const = default;
  static void fields(auto& self, auto& f) {
    f(self.id, self.oldest, self.resume);
    f.name(self.after_name);
    f(self.after_id, self.limit);
  }
};

}  // namespace verbena::protocol
