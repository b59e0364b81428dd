// SPDX-License-Identifier: Apache-2.0
// `verbena rm`, `cp` and `mv`: what changes objects without moving their bytes.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/draft.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/sizes.h"
#include "store_cli/tree.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutRm = R"text(Clones of a removed object keep their data.

  verbena rm --data /srv/store photos/1.jpg 7:42
  verbena rm --data /srv/store -r photos/                          all objects photos/...
)text";

constexpr const char* kAboutCp =
    R"text(A clone shares its data with the original (copy on write): making one copies no data and uses no
space for data until one of the two is written to.

  verbena cp --data /srv/store image snapshot
  verbena cp --data /srv/store --replace snapshot image            restore it, atomically
  verbena cp --data /srv/store --range 1M:4M image piece
  verbena cp --data /srv/store --range 1M:4M --into --to 8M image other
)text";

constexpr const char* kAboutMv =
    R"text(  verbena mv --data /srv/store photos/1.jpg photos/one.jpg
  verbena mv --data /srv/store 7:42 image
  verbena mv --data /srv/store --no-name image                     remove the name; the id remains
)text";

struct ChangeOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> objects;
  bool force = false;
  bool recursive = false;
  std::string from;
  std::string to;
  std::string name;
  std::string range;
  std::string at;
  bool into = false;
  bool replace = false;
  bool no_name = false;
};

[[nodiscard]] int wrong_usage(Report& report, std::string_view what) {
  report.error(kUsage, "invalid", what);
  return report.finish();
}

// All objects behind the prefix, while the server answers. False: a signal came.
[[nodiscard]] bool remove_below(store::Objects& store, const std::string& text, bool force,
                                nlohmann::ordered_json& removed, Report& report) {
  const std::string prefix = as_prefix(text);
  std::vector<store::ObjectInfo> found;
  const auto listed = each_object(store, prefix, [&](const store::ObjectInfo& object) {
    found.push_back(object);
    return true;
  });
  if (!listed) report.error(listed.error(), prefix);
  if (listed && found.empty() && !force) {
    report.error({store::Code::kNotFound, "no objects with this prefix", {}}, prefix);
  }
  for (const store::ObjectInfo& object : found) {
    if (interrupted() != 0) return false;
    if (const auto gone = store.remove(object.id); !gone) {
      report.error(gone.error(), object.name);
    } else {
      removed.push_back(json_of(object));
    }
    if (report.unreachable()) break;
  }
  return true;
}

int rm(const ChangeOptions& options) {
  catch_interrupts();
  Report report("rm", options.speech);
  auto removed = nlohmann::ordered_json::array();
  // All or nothing where the command line is wrong.
  for (const std::string& text : options.objects) {
    if (const auto object = parse_object(text); !object) return wrong_usage(report, object.error());
  }
  if (options.recursive && std::ranges::find(options.objects, "") != options.objects.end()) {
    return wrong_usage(report, "rm -r takes a prefix that is not empty");
  }
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  store::Objects& store = opened->objects();
  for (const std::string& text : options.objects) {
    if (report.unreachable()) break;
    if (options.recursive && remove_below(store, text, options.force, removed, report)) continue;
    if (const int signal = interrupted(); signal != 0) {
      report.interrupted(signal, "interrupted");
      break;
    }
    if (options.force) {
      const auto there = look_up(store, *parse_object(text));
      if (there && !there->has_value()) continue;
    }
    const auto object = find_object(store, text, report);
    if (!object) continue;
    if (const auto gone = store.remove(object->id); !gone) {
      report.error(gone.error(), text);
    } else {
      removed.push_back(json_of(*object));
    }
  }
  report.fields["removed"] = std::move(removed);
  close_objects(*opened, report);
  return report.finish();
}

// What is wrong with the command line alone.
[[nodiscard]] Result<store::CloneRequest, std::string> clone_request(const ChangeOptions& options) {
  store::CloneRequest request;
  if (!options.range.empty()) {
    const auto range = parse_range(options.range);
    if (!range) return fail("--range: " + range.error());
    request.from_offset = range->offset;
    request.length = range->length;
  }
  if (!options.at.empty()) {
    const auto offset = parse_size(options.at);
    if (!offset) return fail("--to: " + offset.error());
    request.to_offset = *offset;
  }
  for (const std::string& text : {options.from, options.to}) {
    if (const auto object = parse_object(text); !object) return fail(object.error());
  }
  if (!options.name.empty()) {
    if (const auto name = parse_name(options.name); !name) return fail("--name: " + name.error());
    if (std::holds_alternative<std::string>(*parse_object(options.to))) {
      return fail(std::string("--name requires that TO is an id"));
    }
  }
  request.allow_existing = options.into;
  return request;
}

void clone(const ChangeOptions& options, store::CloneRequest request, store::Objects& store,
           Report& report) {
  const auto from = find_object(store, options.from, report);
  if (!from) return;
  request.from = from->id;
  if (request.from_offset > from->size ||
      (request.length > 0 && request.length > from->size - request.from_offset)) {
    return report.error({store::Code::kInvalid,
                         fmt::format("--range {} is outside the object, which has {} bytes",
                                     options.range, from->size),
                         {}},
                        options.from);
  }
  const ObjectName to = *parse_object(options.to);
  const auto before = look_up(store, to);
  if (!before) return report.error(before.error(), options.to);
  const bool exists = before->has_value();
  if (exists && !options.into && !options.replace) {
    return report.error({store::Code::kExists,
                         "already exists; use --replace to replace it or --into to write into it",
                         {}},
                        options.to);
  }
  std::string name = options.name;
  if (exists) {
    request.to = (*before)->id;
  } else if (const auto* const id = std::get_if<store::ObjectId>(&to)) {
    request.to = *id;
  } else {
    request.to = random_id();
    name = std::get<std::string>(to);
  }
  request.to_name = name;
  store::Result<void> done;
  if (exists && options.replace) {
    auto draft = Draft::clone(store, request);
    done = draft ? draft->become(request.to, exists, {}) : fail(draft.error());
  } else {
    done = store.clone(request);
  }
  if (!done) return report.error(done.error(), options.from);
  if (const auto now = store.stat(request.to)) report.fields["object"] = json_of(*now);
  report.fields["existed"] = exists;
}

int cp(const ChangeOptions& options) {
  catch_interrupts();
  Report report("cp", options.speech);
  const auto request = clone_request(options);
  if (!request) return wrong_usage(report, request.error());
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  clone(options, *request, opened->objects(), report);
  close_objects(*opened, report);
  return report.finish();
}

int mv(const ChangeOptions& options) {
  catch_interrupts();
  Report report("mv", options.speech);
  if (options.no_name == !options.name.empty()) {
    return wrong_usage(report, "give either NAME or --no-name");
  }
  if (!options.no_name) {
    if (const auto name = parse_name(options.name); !name) return wrong_usage(report, name.error());
  }
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  store::Objects& store = opened->objects();
  if (const auto object = find_object(store, options.from, report)) {
    if (const auto renamed = store.rename(object->id, options.name); !renamed) {
      report.error(renamed.error(), options.from);
    } else if (const auto now = store.stat(object->id)) {
      report.fields["object"] = json_of(*now);
    }
  }
  close_objects(*opened, report);
  return report.finish();
}

}  // namespace

cli::Command rm_command() {
  const auto options = std::make_shared<ChangeOptions>();
  cli::Command command = describe("rm", kAboutRm);
  command.words("OBJECT", "OBJECT...", options->objects, "names or ids (high:low)");
  add_store_options(command, options->store);
  command.flag("-f,--force", options->force, "ignore objects that do not exist")
      .flag("-r,--recursive", options->recursive,
            "remove all objects with names OBJECT/...; OBJECT itself stays");
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return rm(*options); });
}

cli::Command cp_command() {
  const auto options = std::make_shared<ChangeOptions>();
  cli::Command command = describe("cp", kAboutCp);
  command.word("FROM", options->from, "name or id (high:low)")
      .word("TO", options->to, "name or id (high:low) of the clone");
  add_store_options(command, options->store);
  command.option("--name", options->name, "NAME", "also give the clone this name, if TO is an id")
      .option("--range", options->range, "OFFSET:LENGTH",
              "clone only this range; \"OFFSET:\" means up to the end")
      .option("--to", options->at, "OFFSET", "offset in the clone (default 0)")
      .flag("--into", options->into, "TO may exist: replace only the cloned range in it")
      .flag("--replace", options->replace, "TO may exist: replace it atomically")
      .exclude("--replace", "--into");
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return cp(*options); });
}

cli::Command mv_command() {
  const auto options = std::make_shared<ChangeOptions>();
  cli::Command command = describe("mv", kAboutMv);
  command.word("OBJECT", options->from, "name or id (high:low)")
      .optional_word("NAME", options->name, "the new name");
  add_store_options(command, options->store);
  command.flag("--no-name", options->no_name, "remove the name");
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return mv(*options); });
}

}  // namespace verbena::store_cli
