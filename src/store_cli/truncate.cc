// SPDX-License-Identifier: Apache-2.0
// `verbena truncate`: the size of an object.
#include <memory>
#include <optional>

#include "store_cli/commands.h"
#include "store_cli/draft.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutTruncate =
    R"text(A smaller size cuts the object off, and gives the space behind back; clones keep their data. A
larger one adds a hole, which reads as zeros and uses no space.

  verbena truncate --data /srv/store log 0
  verbena truncate --data /srv/store image 10G
  verbena truncate --data /srv/store --create disk 64G        an object of zeros
)text";

struct TruncateOptions {
  StoreChoice store;
  Speech speech;
  std::string object;
  std::string size;
  bool create = false;
};

// The object's id; nothing: `report` knows why.
[[nodiscard]] std::optional<store::ObjectId> find_or_create(store::Objects& store,
                                                            const TruncateOptions& options,
                                                            Report& report) {
  if (!options.create) {
    const auto found = find_object(store, options.object, report);
    return found ? std::optional(found->id) : std::nullopt;
  }
  const ObjectName called = *parse_object(options.object);
  const auto there = look_up(store, called);
  if (!there) {
    report.error(there.error(), options.object);
    return std::nullopt;
  }
  if (there->has_value()) return (*there)->id;
  const auto* const name = std::get_if<std::string>(&called);
  const store::ObjectId id = name != nullptr ? random_id() : std::get<store::ObjectId>(called);
  if (const auto made = store.create_object(id, name != nullptr ? *name : ""); !made) {
    report.error(made.error(), options.object);
    return std::nullopt;
  }
  return id;
}

int truncate(const TruncateOptions& options) {
  catch_interrupts();
  Report report("truncate", options.speech);
  const auto wrong = [&](const std::string& what) {
    report.error(kUsage, "invalid", what);
    return report.finish();
  };
  if (const auto object = parse_object(options.object); !object) return wrong(object.error());
  const auto size = parse_size(options.size);
  if (!size) return wrong("SIZE: " + size.error());
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  store::Objects& store = opened->objects();
  if (const auto id = find_or_create(store, options, report)) {
    if (const auto done = store.truncate(*id, *size); !done) {
      report.error(done.error(), options.object);
    } else if (const auto now = store.stat(*id)) {
      report.fields["object"] = json_of(*now);
    }
  }
  close_objects(*opened, report);
  return report.finish();
}

}  // namespace

cli::Command truncate_command() {
  const auto options = std::make_shared<TruncateOptions>();
  cli::Command command = describe("truncate", kAboutTruncate);
  command.word("OBJECT", options->object, "name or id (high:low)")
      .word("SIZE", options->size, "the new size, such as 512, 64K or 10GiB");
  add_store_options(command, options->store);
  command.flag("--create", options->create, "create the object if it does not exist");
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return truncate(*options); });
}

}  // namespace verbena::store_cli
