// SPDX-License-Identifier: Apache-2.0
// Objects and their segments as they are shown: to people as lines of a table, to scripts as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "store/objects.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

// id, name (null: none), size, chunks, segments, created, modified
[[nodiscard]] nlohmann::ordered_json json_of(const store::ObjectInfo& object);
// offset, size, chunk, count, transaction, shared
[[nodiscard]] nlohmann::ordered_json json_of(const store::BehindReport& behind);
[[nodiscard]] std::string text_of(const store::BehindReport& behind, const Report& report);
[[nodiscard]] nlohmann::ordered_json json_of(const store::SegmentInfo& segment);
// Under "segments", for those who asked.
[[nodiscard]] store::Result<nlohmann::ordered_json> json_of_segments(const store::Objects& store,
                                                                     store::ObjectId object);

// Lines with their end. An object is called by its name, or by its id if it has none.
[[nodiscard]] std::string table_head();
[[nodiscard]] std::string table_line(const store::ObjectInfo& object, const Report& report);
// What one object is, each on its line.
[[nodiscard]] std::string paragraph(const store::ObjectInfo& object, const Report& report);
[[nodiscard]] store::Result<void> print_segments(const store::Objects& store,
                                                 store::ObjectId object, const Report& report);

}  // namespace verbena::store_cli
