// SPDX-License-Identifier: Apache-2.0
// Flags of reads, writes and puts, as the client has them.
#pragma once

#include "c_client/arguments.h"
#include "client/whole.h"

namespace verbena::c_client {

inline constexpr uint32_t kReadFlags = VERBENA_IO_NO_CHECK;
inline constexpr uint32_t kWriteFlags = VERBENA_IO_CRC | VERBENA_IO_REPEATABLE;
inline constexpr uint32_t kPutFlags = VERBENA_IO_CRC | VERBENA_IO_NEW | VERBENA_IO_DURABLE;

[[nodiscard]] inline client::ReadOptions read_options(uint32_t flags) {
  return {.caller_checks = (flags & VERBENA_IO_NO_CHECK) != 0};
}
[[nodiscard]] inline std::optional<uint32_t> crc_if(uint32_t flags, uint32_t crc) {
  return (flags & VERBENA_IO_CRC) != 0 ? std::optional(crc) : std::nullopt;
}
[[nodiscard]] inline client::WriteOptions write_options(uint32_t flags, uint32_t crc) {
  return {.repeatable = (flags & VERBENA_IO_REPEATABLE) != 0, .crc = crc_if(flags, crc)};
}
[[nodiscard]] inline client::PutOptions put_options(uint32_t flags, uint32_t crc) {
  return {.only_new = (flags & VERBENA_IO_NEW) != 0,
          .durable = (flags & VERBENA_IO_DURABLE) != 0,
          .crc = crc_if(flags, crc)};
}
[[nodiscard]] inline std::span<uint8_t> memory_of(void* buffer, size_t bytes) {
  return {static_cast<uint8_t*>(buffer), bytes};
}
[[nodiscard]] inline std::span<const uint8_t> memory_of(const void* buffer, size_t bytes) {
  return {static_cast<const uint8_t*>(buffer), bytes};
}

}  // namespace verbena::c_client
