// SPDX-License-Identifier: Apache-2.0
// Whole objects. A put is written beside the object, to a draft (store/drafts.h), and becomes its
// content in one step: whoever reads it has the old content or the new one. A get has the content
// of one moment. Both are made of asynchronous requests; the client outlives them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "client/client.h"

namespace verbena::client {

struct PutOptions {
  bool only_new = false;          // kExists if there is such an object
  bool durable = false;           // when it is done
  std::optional<uint32_t> crc{};  // CRC-32/BZIP2 of the bytes, as WriteOptions::crc
};
// An object that is not there is made. Transferred::object is its id.
void put_whole(Client& client, const ObjectRef& object, std::span<const uint8_t> bytes,
               const PutOptions& options, Done done);
[[nodiscard]] Result<Transferred> put_whole(Client& client, const ObjectRef& object,
                                            std::span<const uint8_t> bytes,
                                            const PutOptions& options);

// Memory as malloc() gives it, for callers that go on with it in C.
struct FreeMemory {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
struct Whole {
  std::unique_ptr<uint8_t[], FreeMemory> memory;  // of Transferred::bytes, and some more
  Transferred transferred{};
};
// `done` is called with what `whole` has then.
void get_whole(Client& client, const ObjectRef& object, std::shared_ptr<Whole> whole, Done done);
[[nodiscard]] Result<Whole> get_whole(Client& client, const ObjectRef& object);

}  // namespace verbena::client
