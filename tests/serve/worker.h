// SPDX-License-Identifier: Apache-2.0
// A client that does a bit of everything, and knows what it must find.
//
// Its own objects nobody else changes. While the server lives, a block has the last token that was
// written. If the server may be killed (`restarts`), it has one that is not older than the last
// that was flushed: what was acknowledged since may be lost, and a request may have taken effect
// though its answer never came. In shared objects every block is one whole write of somebody.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/client.h"
#include "serve/blocks.h"

namespace verbena::serve {

class Worker {
 public:
  Worker(client::Client& client, std::string name, uint64_t seed, bool restarts);

  // Throws no error: says what is wrong and returns false.
  [[nodiscard]] bool begin();
  [[nodiscard]] bool step();

  // Shared by all workers; whoever comes first makes them.
  [[nodiscard]] static bool make_shared(client::Client& client);

 private:
  struct Block {
    uint64_t latest = 0;   // written, whether it was answered or not
    uint64_t acked = 0;    // answered
    uint64_t epoch = 0;    // of the connection when that was written
    uint64_t durable = 0;  // flushed, by the same server
  };
  struct Object {
    std::string name;
    ObjectId id{};
    uint32_t block_bytes = 0;
    std::array<Block, kBlocks> blocks{};
  };

  [[nodiscard]] bool fails(const char* what, const std::string& where, const client::Error& error);
  // Whether this error is what a killed server may cause.
  [[nodiscard]] bool excused(const client::Error& error) const;
  [[nodiscard]] bool add();
  [[nodiscard]] bool write(Object& object);
  [[nodiscard]] bool write_many(Object& object);
  [[nodiscard]] bool read(Object& object);
  [[nodiscard]] bool check(const Object& object, uint32_t first, std::span<const uint8_t> bytes);
  [[nodiscard]] bool flush();
  [[nodiscard]] bool share();
  [[nodiscard]] bool look();
  [[nodiscard]] bool change_objects();
  [[nodiscard]] bool scratch();
  [[nodiscard]] Object& any() { return objects_[below(objects_.size())]; }
  [[nodiscard]] uint64_t below(uint64_t n) { return random_.next() % n; }

  client::Client& client_;
  const std::string name_;
  SeededRandom random_;
  const bool restarts_;
  const uint64_t tag_;     // in all its tokens
  uint64_t sequence_ = 0;  // of its tokens, and of names
  std::vector<Object> objects_;
};

// Blocks of an object, with zeros behind its end: what was never written, or is lost. Of memory
// behind the bytes that a read tells of nothing is said. If the server is killed while it answers,
// and the next one has lost a part of the object, the repeated read is shorter, and some of what
// the first one sent is still there.
[[nodiscard]] client::Result<std::vector<uint8_t>> read_blocks(client::Client& client,
                                                               const client::ObjectRef& object,
                                                               uint32_t block_bytes,
                                                               uint32_t first = 0,
                                                               uint32_t count = kBlocks);
// Whether each block of this object, and of its own kind alone, is one whole write; what is wrong.
[[nodiscard]] std::string what_is_mixed(client::Client& client, const client::ObjectInfo& object);

}  // namespace verbena::serve
