// SPDX-License-Identifier: Apache-2.0
// A client of a store's server. Requests are made by any thread and may all be under way at once;
// each has a deadline. A connection that is lost is made again, and what was under way goes on
// where that is safe (docs/protocol.md, "What is promised").
//
//   caller's threads --- blocking calls drive the connection themselves ---+
//                    `-- asynchronous calls --> background thread ---------+--> session, fabric
//
// Data of reads and writes is covered by a CRC from the caller's memory to the server's and back:
// bytes that arrive otherwise are an error, never returned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "protocol/messages.h"
#include "session/client.h"

namespace verbena::client {

struct Options {
  std::string host = "127.0.0.1";
  uint16_t port = 7471;
  session::Secret secret{};         // empty: none
  Duration timeout = 30 * kSecond;  // of a request, connecting again included
  // How long a blocking call looks for its answer before it sleeps.
  Duration busy_poll = 100 * kMicrosecond;
};

enum class Code : uint8_t {
  kAnswered,     // by the server, with `status`
  kUnreachable,  // no answer in time; nothing was changed
  kUnknown,      // no answer, and it may have been done, or not
  kRefused,      // the server does not accept this client
  kNoFabric,     // because it does not have the fabric that the client uses
  kCorrupted,    // data that arrived is not what was sent, also when it was sent again
  kInvalid,      // cannot be asked for
  kLocal,        // this host has no device, no libraries, or no descriptors for it
  kCancelled,    // the client was closed
};
struct Error {
  Code code = Code::kInvalid;
  protocol::Status status = protocol::Status::kOk;
  std::string what{};  // a sentence for people
};
template <typename T>
using Result = verbena::Result<T, Error>;

using protocol::ObjectRef;

struct ObjectInfo {
  ObjectId id{};
  std::string name{};
  uint64_t size = 0;
  uint64_t chunks = 0;
  uint64_t segments = 0;
  uint64_t content = 0;
  uint64_t created_ns = 0;
  uint64_t modified_ns = 0;
};
struct Page {
  std::vector<ObjectInfo> objects{};
  bool more = false;
};
// Of how many bytes, and their CRC-32/BZIP2.
struct StoredCrc {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};
// Of an object of a server that is a cache: parts of 4048 bytes that are only there, behind it as
// well, and only behind; and those that have left.
struct BehindState {
  uint64_t only_here = 0;
  uint64_t in_both = 0;
  uint64_t behind = 0;
  uint64_t evicted = 0;
  bool flushed = false;
};
struct CloneOptions {
  uint64_t from_offset = 0;
  uint64_t length = 0;  // 0: to the end
  uint64_t to_offset = 0;
  bool allow_existing = false;
  std::string_view to_name{};  // of an object that is made, if it is called by its id
};
// What was read or written, and of which object.
struct Transferred {
  uint64_t bytes = 0;
  ObjectId object{};
  uint32_t crc = 0;  // CRC-32/BZIP2 of the bytes
};
// What is called with the answer to an asynchronous request.
template <typename T>
using Then = std::function<void(Result<T>)>;
using Done = Then<Transferred>;
struct WriteOptions {
  // May be done again after the server was restarted: for the one writer of an object.
  bool repeatable = false;
  // CRC-32/BZIP2 of the data, if the caller has it: other data is not stored. Otherwise it is that
  // of the data when the request is made.
  std::optional<uint32_t> crc{};
};
struct ReadOptions {
  // The caller compares the data with Transferred::crc, with what else it does to it: here it is
  // not, and what arrives wrong is not asked for again.
  bool caller_checks = false;
};

class Driver;

class Client {
 public:
  using Memory = std::span<const std::span<uint8_t>>;  // several pieces are one request
  using ConstMemory = std::span<const std::span<const uint8_t>>;

  // Waits until there is a session.
  [[nodiscard]] static Result<std::unique_ptr<Client>> connect(
      const Options& options, std::unique_ptr<fabric::Fabric> fabric);
  // Requests that are under way end with kCancelled.
  ~Client();

  // --- blocking
  [[nodiscard]] Result<void> ping(std::span<const uint8_t> data = {});
  [[nodiscard]] Result<ObjectId> create(std::string_view name, ObjectId id = {});
  [[nodiscard]] Result<void> remove(const ObjectRef& object);
  [[nodiscard]] Result<void> rename(const ObjectRef& object, std::string_view name);
  [[nodiscard]] Result<void> truncate(const ObjectRef& object, uint64_t size);
  [[nodiscard]] Result<void> replace(const ObjectRef& object, const ObjectRef& by);
  [[nodiscard]] Result<ObjectInfo> stat(const ObjectRef& object);
  // In order of name, then id, behind `after`.
  [[nodiscard]] Result<Page> list(const ObjectInfo* after, uint16_t limit = 0);
  // From the CRCs that are stored with the bytes. Fewer bytes than asked for at the object's end,
  // or if the server does not look at more at once; length 0: to the end.
  [[nodiscard]] Result<StoredCrc> stored_crc(const ObjectRef& object, uint64_t offset,
                                             uint64_t length);
  // The object that has the clone.
  [[nodiscard]] Result<ObjectId> clone(const ObjectRef& from, const ObjectRef& to,
                                       const CloneOptions& options = {});
  // A range of the object (length 0: to its end), or without an object, everything. The server may
  // flush more.
  [[nodiscard]] Result<void> flush(const ObjectRef& object = {}, uint64_t offset = 0,
                                   uint64_t length = 0);
  // Of an object, or without one of all. kUnsupported: the server is no cache.
  [[nodiscard]] Result<BehindState> go_behind(const ObjectRef& object,
                                              protocol::BehindAction action);
  [[nodiscard]] Result<uint64_t> register_range(const ObjectRef& object, uint64_t offset,
                                                uint64_t length, protocol::RangeAccess access);
  [[nodiscard]] Result<void> unregister_range(uint64_t range);
  // Fewer bytes than asked for at the object's end; the rest of the memory may have changed as
  // well. At most limits().io_bytes, in one step.
  [[nodiscard]] Result<Transferred> read(const ObjectRef& object, uint64_t offset,
                                         std::span<uint8_t> to, const ReadOptions& options = {});
  [[nodiscard]] Result<Transferred> read(const ObjectRef& object, uint64_t offset, Memory to,
                                         const ReadOptions& options = {});
  [[nodiscard]] Result<Transferred> write(const ObjectRef& object, uint64_t offset,
                                          std::span<const uint8_t> from,
                                          const WriteOptions& options = {});
  [[nodiscard]] Result<Transferred> write(const ObjectRef& object, uint64_t offset,
                                          ConstMemory from, const WriteOptions& options = {});

  // --- asynchronous: `done` is called once, by any thread that drives the connection; it may make
  // requests, but not wait. The memory is the request's until then; names are copied.
  void ping_async(std::span<const uint8_t> data, Then<void> done);
  void create_async(std::string_view name, ObjectId id, Then<ObjectId> done);
  void remove_async(const ObjectRef& object, Then<void> done);
  void rename_async(const ObjectRef& object, std::string_view name, Then<void> done);
  void truncate_async(const ObjectRef& object, uint64_t size, Then<void> done);
  void replace_async(const ObjectRef& object, const ObjectRef& by, Then<void> done);
  void stat_async(const ObjectRef& object, Then<ObjectInfo> done);
  void list_async(const ObjectInfo* after, uint16_t limit, Then<Page> done);
  void stored_crc_async(const ObjectRef& object, uint64_t offset, uint64_t length,
                        Then<StoredCrc> done);
  void clone_async(const ObjectRef& from, const ObjectRef& to, const CloneOptions& options,
                   Then<ObjectId> done);
  void flush_async(const ObjectRef& object, uint64_t offset, uint64_t length, Then<void> done);
  void go_behind_async(const ObjectRef& object, protocol::BehindAction action,
                       Then<BehindState> done);
  void register_range_async(const ObjectRef& object, uint64_t offset, uint64_t length,
                            protocol::RangeAccess access, Then<uint64_t> done);
  void unregister_range_async(uint64_t range, Then<void> done);
  void read_async(const ObjectRef& object, uint64_t offset, Memory to, const ReadOptions& options,
                  Done done);
  void write_async(const ObjectRef& object, uint64_t offset, ConstMemory from,
                   const WriteOptions& options, Done done);

  // Waits for something made of asynchronous requests: calls begin(done), drives the connection,
  // and returns what done() was called with.
  template <typename T>
  [[nodiscard]] Result<T> await(const std::function<void(Then<T>)>& begin);

  [[nodiscard]] protocol::Limits limits() const;
  // For people: "verbs, verbena0".
  [[nodiscard]] std::string provider() const;
  // Blocking calls sleep at once instead of looking for their answer for a while: more latency, and
  // less of the CPU.
  void set_passive_wait(bool on);
  // How often the connection was lost.
  [[nodiscard]] uint64_t reconnects() const;
  // Reads and writes that were done again because their data had arrived spoilt.
  [[nodiscard]] uint64_t repeated() const;

 private:
  explicit Client(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

}  // namespace verbena::client
