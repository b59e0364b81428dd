// SPDX-License-Identifier: Apache-2.0
// `verbena get`: an object, or a part of it, becomes a file; whole and right, or not at all.
#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/get_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/output_file.h"
#include "store_cli/progress.h"
#include "store_cli/sizes.h"
#include "store_cli/tree.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutGet =
    R"text(Every byte is verified against the checksums made by put. A file is created, or an existing one
replaced, only when it is complete and verified; only verified data is written to a pipe.

  verbena get --data /srv/store photos/1.jpg photo.jpg
  verbena get --data /srv/store src.tar - | tar x
  verbena get --data /srv/store --offset 1M --length 4K image piece
  verbena get --data /srv/store -r photos pictures           all objects photos/...
)text";

struct GetOptions {
  StoreChoice store;
  Speech speech;
  std::string object;
  std::string file;
  std::string offset = "0";
  std::string length;
  bool keep_going = false;
  bool recursive = false;
};

// What of the object; nothing: `report` knows why.
[[nodiscard]] std::optional<GetRequest> find_range(const GetOptions& options,
                                                   const store::Objects& store, uint64_t offset,
                                                   uint64_t length, Report& report) {
  auto found = find_object(store, options.object, report);
  if (!found) return std::nullopt;
  if (offset > found->size) {
    report.error({store::Code::kInvalid,
                  fmt::format("--offset {} is past the end of the object, which has {} bytes",
                              offset, found->size),
                  {}},
                 options.object);
    return std::nullopt;
  }
  GetRequest request{.shown = options.object, .object = std::move(*found), .begin = offset};
  const uint64_t size = request.object.size;
  request.end = length < size - offset ? offset + length : size;
  request.keep_going = options.keep_going;
  return request;
}

void copy(const GetOptions& options, const store::Objects& store, const GetRequest& request,
          Report& report) {
  auto file = OutputFile::open(options.file, extent_of(request));
  if (!file) return report.error(kNotDone, "io", file.error());
  ProgressBar bar(report.shows_progress(), "get", request.end - request.begin);
  Transferred transferred{bar};
  const GetResult done = get_object(store, request, *file, transferred, report);
  bar.clear();
  if (done.whole) {
    if (const auto placed = file->finish(); !placed) report.error(kNotDone, "io", placed.error());
  }
  report.fields["object"] = json_of(request.object);
  report.fields["offset"] = request.begin;
  report.fields["bytes_read"] = done.bytes;
  report.fields["bytes_zeroed"] = done.zeroed;
}

// All objects behind a prefix, as files of their names in a directory and below.
int get_tree(const GetOptions& options) {
  Report report("get", options.speech);
  if (options.file == "-" || options.offset != "0" || !options.length.empty()) {
    report.error(kUsage, "invalid", "-r writes whole objects to a directory");
    return report.finish();
  }
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  const auto target = TargetTree::open(options.file);
  if (!target) {
    report.error(kNotDone, "io", target.error());
    return report.finish();
  }
  const store::Objects& store = opened->objects();
  const std::string prefix = as_prefix(options.object);
  uint64_t bytes = 0;
  uint64_t objects = 0;
  const auto counted = each_object(store, prefix, [&](const store::ObjectInfo& object) {
    bytes += object.size;
    ++objects;
    return true;
  });
  if (!counted) report.error(counted.error(), options.object);
  if (counted && objects == 0) {
    report.error({store::Code::kNotFound, "no objects with this prefix", {}}, options.object);
  }
  ProgressBar bar(report.shows_progress(), "get", bytes);
  Transferred transferred{bar};
  uint64_t files = 0;
  const auto listed = each_object(store, prefix, [&](const store::ObjectInfo& object) {
    const std::string shown = object.name.empty() ? text_of(object.id) : object.name;
    const std::string relative = object.name.substr(std::min(prefix.size(), object.name.size()));
    const auto refuse = [&](const std::string& why) {
      bar.clear();
      report.error(kNotDone, "io", why);
      return interrupted() == 0;
    };
    if (const auto fine = check_relative(relative); !fine) {
      return refuse(fmt::format("{}: not written: {}", shown, fine.error()));
    }
    auto folder = target->folder_of(relative);
    if (!folder) return refuse(folder.error());
    const GetRequest request{.shown = shown,
                             .object = object,
                             .begin = 0,
                             .end = object.size,
                             .keep_going = options.keep_going};
    auto file = OutputFile::open_in(std::move(*folder), relative.substr(relative.rfind('/') + 1),
                                    target->path_of(relative), extent_of(request));
    if (!file) return refuse(file.error());
    const GetResult got = get_object(store, request, *file, transferred, report);
    if (!got.whole) return interrupted() == 0 && !report.unreachable();
    if (const auto placed = file->finish(); !placed) return refuse(placed.error());
    ++files;
    return true;
  });
  if (counted && !listed) report.error(listed.error(), options.object);
  bar.clear();
  report.fields["files_written"] = files;
  report.fields["bytes_read"] = transferred.bytes;
  report.note(fmt::format("wrote {} file{}, {}", files, files == 1 ? "" : "s",
                          human_size(transferred.bytes)));
  return report.finish();
}

int get(const GetOptions& options) {
  catch_interrupts();
  if (options.recursive) return get_tree(options);
  Report report("get", options.speech);
  if (options.file == "-") report.yield_output();
  const auto offset = parse_size(options.offset);
  const auto length = options.length.empty() ? UINT64_MAX : parse_size(options.length);
  if (!offset || !length) {
    report.error(kUsage, "invalid",
                 offset ? "--length: " + length.error() : "--offset: " + offset.error());
    return report.finish();
  }
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  const store::Objects& store = opened->objects();
  if (const auto request = find_range(options, store, *offset, *length, report)) {
    copy(options, store, *request, report);
  }
  return report.finish();
}

}  // namespace

cli::Command get_command() {
  const auto options = std::make_shared<GetOptions>();
  cli::Command command = describe("get", kAboutGet);
  command.word("OBJECT", options->object, "name or id (high:low)")
      .word("FILE", options->file, "file to write; - is standard output");
  add_store_options(command, options->store);
  command.option("--offset", options->offset, "SIZE", "start at this offset (default 0)")
      .option("--length", options->length, "SIZE",
              "read at most this many bytes (default: to the end)")
      .flag("--keep-going", options->keep_going,
            "where the object is damaged, report it and write zeros; the\n"
            "exit status is still 4")
      .flag("-r,--recursive", options->recursive,
            "write the objects with names OBJECT/PATH to FILE/PATH, a\n"
            "directory; never outside of it");
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return get(*options); });
}

}  // namespace verbena::store_cli
