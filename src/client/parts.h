// SPDX-License-Identifier: Apache-2.0
// Reads and writes of any length. One that is longer than a request may be is cut into parts, of
// which several are under way at once. Each part is atomic, not the whole. An object that is called
// by its name is looked up with the first part, and all parts go to the same object.
//
// Transferred has the bytes up to the first part that is short (the object ends there), and their
// CRC, joined from those of the parts. If parts fail, it is the error of the first of them.
#pragma once

#include <cstdint>
#include <span>

#include "client/client.h"

namespace verbena::client {

// What goes in one request when there is more.
inline constexpr uint64_t kPartBytes = uint64_t{1} << 20;

// Up to `whole_bytes`, and what the session allows, in one request; `done` as with
// Client::read_async(). The client outlives it.
void read_parts(Client& client, const ObjectRef& object, uint64_t offset, std::span<uint8_t> to,
                const ReadOptions& options, uint64_t whole_bytes, Done done);
// WriteOptions::crc is that of all bytes: if they have another one, nothing is written.
void write_parts(Client& client, const ObjectRef& object, uint64_t offset,
                 std::span<const uint8_t> from, const WriteOptions& options, uint64_t whole_bytes,
                 Done done);

// --- blocking
[[nodiscard]] Result<Transferred> read_parts(Client& client, const ObjectRef& object,
                                             uint64_t offset, std::span<uint8_t> to,
                                             const ReadOptions& options, uint64_t whole_bytes);
[[nodiscard]] Result<Transferred> write_parts(Client& client, const ObjectRef& object,
                                              uint64_t offset, std::span<const uint8_t> from,
                                              const WriteOptions& options, uint64_t whole_bytes);

}  // namespace verbena::client
