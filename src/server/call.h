// SPDX-License-Identifier: Apache-2.0
// A request on its way through the server, from its message to the response. Calls are kept and
// used again, so that requests allocate nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "fabric/fabric.h"
#include "protocol/messages.h"
#include "session/server.h"
#include "store/store.h"

namespace verbena::server {

class Hook;

struct Call {
  uint32_t number = 0;  // in the table of calls; names its RDMA operation
  Hook* hook = nullptr;
  cache::Cache* cache = nullptr;  // none: nothing is behind the store
  session::SessionId session = 0;
  fabric::ConnectionId connection = 0;
  ObjectId default_object{};  // of the session; 0:0: none

  protocol::Request request;     // views into the message
  protocol::Response response;   // views into what is below
  std::vector<uint8_t> message;  // a copy, if the request is not answered at once
  // Where the response will be: the fabric's room for it, or `reply`.
  std::span<uint8_t> room;
  std::vector<uint8_t> reply;
  std::string detail;
  std::string name;
  std::vector<store::ObjectInfo> objects;
  // A read or write by RDMA: the object, and the chunks.
  ObjectId object{};
  store::PreparedRead read;
  store::PreparedWrite write;
  // What it failed for, if a cache can do something about that.
  std::optional<store::Error> needs;
  int tries = 0;
  uint64_t held = 0;  // bytes of these, of the room for transfers

  template <typename R>
  [[nodiscard]] const R& as() const {
    return std::get<R>(request);
  }
  // Copies what the request points to, for as long as the call takes.
  void keep(std::span<const uint8_t> bytes) {
    message.assign(bytes.begin(), bytes.end());
    // It was decoded and checked before.
    request = *protocol::decode_request(message, kUnchecked);
  }
  void fail(protocol::Status status, std::string_view why);
  void fail(const store::Error& error);

  static const protocol::Seal kUnchecked;
};

class Calls {
 public:
  [[nodiscard]] Call& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Call>());
      all_.back()->number = static_cast<uint32_t>(all_.size() - 1);
      free_.push_back(all_.back()->number);
    }
    const uint32_t number = free_.back();
    free_.pop_back();
    ++busy_;
    return *all_[number];
  }
  void give(Call& call) {
    // What it holds in the store goes now, not when it is used again.
    call.read = {};
    call.write = {};
    call.objects.clear();
    if (call.message.capacity() > kKeptBytes) call.message = {};
    if (call.reply.capacity() > kKeptBytes) call.reply = {};
    free_.push_back(call.number);
    --busy_;
  }
  [[nodiscard]] Call& operator[](uint64_t number) { return *all_.at(number); }
  [[nodiscard]] size_t busy() const { return busy_; }

 private:
  static constexpr size_t kKeptBytes = 4096;
  std::vector<std::unique_ptr<Call>> all_;
  std::vector<uint32_t> free_;
  size_t busy_ = 0;
};

}  // namespace verbena::server
