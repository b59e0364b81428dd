// SPDX-License-Identifier: Apache-2.0
// Many small objects: put by one process, and one of them read again; and the same in SQLite and
// Redis.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::bench {

// So many, flushed after each kBatch; per second, with closing.
inline constexpr uint64_t kBatch = 1000;
[[nodiscard]] double put_objects(const std::string& folder, uint64_t count, size_t bytes);
// In one table, WAL, synchronous=FULL, a transaction for each kBatch.
[[nodiscard]] double put_in_sqlite(const std::string& folder, uint64_t count, size_t bytes);
// By redis-cli --pipe over a unix socket; the server keeps a log that is synced each second, or
// nothing at all. 0: there is no redis-server.
[[nodiscard]] double put_in_redis(const std::string& folder, uint64_t count, size_t bytes,
                                  bool log);

// Opens the store and reads this object; seconds.
[[nodiscard]] double get_object(const std::string& folder, uint64_t object);
// The command that does, as a process.
[[nodiscard]] double get_by_command(const std::string& verbena, const std::string& folder,
                                    uint64_t object);
[[nodiscard]] uint64_t bytes_in(const std::string& folder);

}  // namespace verbena::bench
