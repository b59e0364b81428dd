// SPDX-License-Identifier: Apache-2.0
// `verbena put`: a file becomes an object, whole or not at all.
#include <memory>
#include <string_view>
#include <vector>

#include "store_cli/commands.h"
#include "store_cli/input_file.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/progress.h"
#include "store_cli/put_many.h"
#include "store_cli/put_object.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutPut =
    R"text(The change is atomic, even if the command is killed or power fails: the object is either complete or
as it was before. A store is created if the directory does not exist or is empty. Each of several
files is an atomic change of its own.

  verbena put --data /srv/store photo.jpg photos/1.jpg      by name
  tar c src | verbena put --data /srv/store - src.tar       from a pipe
  verbena put --data /srv/store image 7:42                  by id: high:low
  verbena put --data /srv/store --append log.txt log        append to an object
  verbena put --data /srv/store --offset 1M piece image     overwrite a part
  verbena put --data /srv/store -r pictures photos          the files of a directory
  find . -type f -printf '%p\tbackup/%P\n' | verbena put --data /srv/store --batch
)text";

struct PutOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> words;
  std::string file;
  std::string object;
  std::string name;
  std::string offset;
  bool append = false;
  bool only_new = false;
  bool recursive = false;
  bool batch = false;
};

[[nodiscard]] Result<ObjectName, std::string> check(const PutOptions& options) {
  if (!options.offset.empty()) {
    const auto offset = parse_size(options.offset);
    if (!offset) return fail("--offset: " + offset.error());
  }
  const auto object = parse_object(options.object);
  if (!object || options.name.empty()) return object;
  const auto name = parse_name(options.name);
  if (!name) return fail("--name: " + name.error());
  if (std::holds_alternative<std::string>(*object)) {
    return fail(std::string("--name requires that OBJECT is an id"));
  }
  return object;
}

// A stream is read before the store is taken: it may stall, and others go on meanwhile. With a
// server they go on anyway; but what is a part of an object is to change it as it is at the end.
[[nodiscard]] bool take_in(InputFile& input, const PutOptions& options, Report& report) {
  if (!check_choice(options.store, report)) return false;
  const bool whole = !options.append && options.offset.empty();
  if (!input.is_stream() || (whole && place_of(options.store) == Place::kServer)) return true;
  ProgressBar bar(report.shows_progress(), "put", 0);
  const auto taken =
      input.take_in(folders_of(options.store), [&](uint64_t bytes) { bar.update(bytes); });
  bar.clear();
  if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted; the object is unchanged");
    return false;
  }
  if (!taken) report.error(kNotDone, "io", taken.error());
  return taken.has_value();
}

int put_file(const PutOptions& options) {
  Report report("put", options.speech);
  const auto object = check(options);
  if (!object) {
    report.error(kUsage, "invalid", object.error());
    return report.finish();
  }
  // Before the store, which is not to be made for nothing.
  auto input = InputFile::open(options.file);
  if (!input) {
    report.error(kNotDone, "io", input.error());
    return report.finish();
  }
  if (!take_in(*input, options, report)) return report.finish();
  auto opened = open_objects(options.store, Need::kCreate, report);
  if (!opened) return report.finish();
  ProgressBar bar(report.shows_progress(), "put", input->size());
  Transferred transferred{bar};
  const PutRequest request{
      .shown = options.object,
      .object = *object,
      .name = options.name,
      .offset = parse_size(options.offset.empty() ? "0" : options.offset).value_or(0),
      .part = !options.offset.empty(),
      .append = options.append,
      .only_new = options.only_new};
  if (const auto done = put_object(opened->objects(), request, *input, transferred, report)) {
    report.fields["object"] = json_of(done->object);
    report.fields["offset"] = done->offset;
    report.fields["bytes_written"] = done->bytes;
    report.fields["replaced"] = done->replaced;
  }
  bar.clear();
  report.fields["created_store"] = opened->created();
  close_objects(*opened, report);
  return report.finish();
}

[[nodiscard]] int wrong_words(const PutOptions& options, std::string_view what) {
  Report report("put", options.speech);
  report.error(kUsage, "invalid", what);
  return report.finish();
}

int put(PutOptions& options) {
  catch_interrupts();
  const bool single = !options.recursive && !options.batch;
  const size_t given = options.words.size();
  if (options.batch && given > 0) {
    return wrong_words(options,
                       "--batch reads files and objects from standard input, not as words");
  }
  if (!options.batch && given != 2) {
    return wrong_words(options, given == 0   ? (single ? "FILE is missing" : "DIR is missing")
                                : given == 1 ? (single ? "OBJECT is missing" : "PREFIX is missing")
                                             : "too many words: give a file and an object");
  }
  if (!single && (options.append || !options.offset.empty() || !options.name.empty())) {
    return wrong_words(options, "--name, --offset and --append are for a single file");
  }
  if (options.batch) return put_batch({options.store, options.speech, "", "", options.only_new});
  options.file = options.words[0];
  options.object = options.words[1];
  if (single) return put_file(options);
  return put_tree({options.store, options.speech, options.file, options.object, options.only_new});
}

}  // namespace

cli::Command put_command() {
  const auto options = std::make_shared<PutOptions>();
  cli::Command command = describe("put", kAboutPut);
  command.optional_words("FILE OBJECT", "{FILE OBJECT | -r DIR PREFIX | --batch}", options->words,
                         "file to read, - is standard input; name or id (high:low)");
  add_store_options(command, options->store);
  command
      .option("--name", options->name, "NAME", "also give the object this name, if OBJECT is an id")
      .option("--offset", options->offset, "SIZE",
              "write at this offset and keep the rest of the object")
      .flag("--append", options->append, "append to the object")
      .exclude("--append", "--offset")
      .flag("--new", options->only_new, "fail if the object exists")
      .flag("-r,--recursive", options->recursive, "store the files in DIR and below as PREFIX/PATH")
      .flag("--batch", options->batch,
            "store the files that standard input lists: lines of FILE, a\n"
            "tab, and OBJECT")
      .exclude("--batch", "--recursive");
  add_writing_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return put(*options); });
}

}  // namespace verbena::store_cli
