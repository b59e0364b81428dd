// SPDX-License-Identifier: Apache-2.0
// `verbena put`: a file becomes an object, whole or not at all.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "store_cli/commands.h"
#include "store_cli/draft.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/options.h"
#include "store_cli/progress.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutPut =
    R"text(The change is atomic, even if the command is killed or power fails: the object is either complete or
as it was before. A store is created if the directory does not exist or is empty.

  verbena put --data /srv/store photo.jpg photos/1.jpg      by name
  tar c src | verbena put --data /srv/store - src.tar       from a pipe
  verbena put --data /srv/store image 7:42                  by id: high:low
  verbena put --data /srv/store --append log.txt log        append to an object
  verbena put --data /srv/store --offset 1M piece image     overwrite a part
)text";

struct PutOptions {
  StoreChoice store;
  Speech speech;
  std::string file;
  std::string object;
  std::string name;
  std::string offset;
  bool append = false;
  bool only_new = false;
};

// A file to read, and its size if that is known.
struct Input {
  UniqueFd fd;
  std::string shown;
  uint64_t size = 0;
};

[[nodiscard]] Result<Input, std::string> open_input(const std::string& path) {
  Input input;
  input.shown = path == "-" ? "standard input" : path;
  const auto wrong = [&](int error) {
    return fail(fmt::format("{}: cannot be read: {}", input.shown, std::strerror(error)));
  };
  input.fd.reset(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!input.fd.valid() || ::fstat(input.fd.get(), &status) != 0) return wrong(errno);
  if ((::fcntl(input.fd.get(), F_GETFL) & O_ACCMODE) == O_WRONLY) return wrong(EBADF);
  if (S_ISDIR(status.st_mode)) return wrong(EISDIR);
  if (S_ISREG(status.st_mode)) {
    // Of the standard input, what the shell has not read yet.
    const off_t at = std::max<off_t>(0, ::lseek(input.fd.get(), 0, SEEK_CUR));
    input.size = static_cast<uint64_t>(std::max<off_t>(0, status.st_size - at));
  }
  ::posix_fadvise(input.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return input;
}

// As many bytes as there is room for; fewer only at the end, or if a signal came.
[[nodiscard]] Result<size_t, std::string> fill(const Input& input, std::span<uint8_t> room) {
  size_t filled = 0;
  while (filled < room.size() && interrupted() == 0) {
    const ssize_t got = ::read(input.fd.get(), room.data() + filled, room.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(fmt::format("{}: cannot be read: {}", input.shown, std::strerror(errno)));
    }
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

// Where it goes.
struct Target {
  store::ObjectId id;
  std::string name;  // for a new one, or to change to
  bool exists = false;
  uint64_t offset = 0;  // in the object
  bool part = false;    // what is around it stays
  store::ObjectInfo before;
};

class Put {
 public:
  Put(const PutOptions& options, Report& report, store::Store& store)
      : options_(options), report_(report), store_(store) {}

  [[nodiscard]] bool find_target(const ObjectName& object);
  // False: not done, and `report_` knows why.
  [[nodiscard]] bool copy(const Input& input);
  void describe() const;

 private:
  bool wrong(store::Error error) {
    if (error.code == store::Code::kFull) {
      error.what = fmt::format("the store is full: {}; the object is unchanged", error.what);
    }
    report_.error(error, options_.object);
    return false;
  }
  [[nodiscard]] bool transfer(const Input& input, store::ObjectId to);

  const PutOptions& options_;
  Report& report_;
  store::Store& store_;
  Target target_;
  uint64_t bytes_ = 0;
};

bool Put::find_target(const ObjectName& object) {
  const auto found = look_up(store_, object);
  if (!found) return wrong(found.error());
  target_.exists = found->has_value();
  if (target_.exists) {
    if (options_.only_new) return wrong({store::Code::kExists, "already exists", {}});
    target_.before = **found;
    target_.id = target_.before.id;
  } else if (const auto* const id = std::get_if<store::ObjectId>(&object)) {
    target_.id = *id;
  } else {
    target_.id = random_id();
    target_.name = std::get<std::string>(object);
  }
  if (!options_.name.empty()) {
    target_.name = options_.name;
    const auto other = store_.find(target_.name);
    if (other && *other != target_.id) {
      return wrong({store::Code::kExists,
                    fmt::format("another object has the name '{}'", target_.name),
                    {}});
    }
  }
  target_.part = options_.append || !options_.offset.empty();
  if (options_.append) target_.offset = target_.before.size;
  if (!options_.offset.empty()) target_.offset = parse_size(options_.offset).value_or(0);
  return true;
}

bool Put::transfer(const Input& input, store::ObjectId to) {
  // Whole chunks, so that none is written twice.
  constexpr size_t kPiece = 1024 * store::kDataBytes;
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kPiece);
  ProgressBar progress(report_.shows_progress(), "put", input.size);
  for (uint64_t at = target_.offset;;) {
    const size_t room = kPiece - at % store::kDataBytes;
    const auto got = fill(input, {buffer.get(), room});
    if (const int signal = interrupted(); signal != 0) {
      progress.clear();
      report_.interrupted(signal, "interrupted; the object is unchanged");
      return false;
    }
    if (!got) {
      progress.clear();
      report_.error(kNotDone, "io", got.error());
      return false;
    }
    if (*got > 0) {
      if (const auto wrote = store_.write(to, at, {buffer.get(), *got}); !wrote) {
        progress.clear();
        return wrong(wrote.error());
      }
    }
    at += *got;
    bytes_ += *got;
    progress.update(bytes_);
    if (*got < room) return true;
  }
}

bool Put::copy(const Input& input) {
  auto draft = target_.part && target_.exists
                   ? Draft::clone(store_, {.from = target_.id, .to = {}, .to_name = {}})
                   : Draft::empty(store_);
  if (!draft) return wrong(draft.error());
  if (!transfer(input, draft->id())) return false;
  const auto done = draft->become(target_.id, target_.exists, target_.name);
  if (!done) return wrong(done.error());
  if (target_.exists && !target_.name.empty() && target_.name != target_.before.name) {
    const auto renamed = store_.rename(target_.id, target_.name);
    if (!renamed) return wrong(renamed.error());
  }
  return true;
}

void Put::describe() const {
  const auto now = store_.stat(target_.id);
  if (!now) return;
  report_.fields["object"] = json_of(*now);
  report_.fields["offset"] = target_.offset;
  report_.fields["bytes_written"] = bytes_;
  report_.fields["replaced"] = target_.exists;
}

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

int put(const PutOptions& options) {
  catch_interrupts();
  Report report("put", options.speech);
  const auto object = check(options);
  if (!object) {
    report.error(kUsage, "invalid", object.error());
    return report.finish();
  }
  // Before the store, which is not to be made for nothing.
  const auto input = open_input(options.file);
  if (!input) {
    report.error(kNotDone, "io", input.error());
    return report.finish();
  }
  auto opened = open_store(options.store, Need::kCreate, report);
  if (!opened) return report.finish();
  Put work(options, report, opened->directory.store());
  if (work.find_target(*object) && work.copy(*input)) work.describe();
  report.fields["created_store"] = opened->created;
  close_store(*opened, report);
  return report.finish();
}

}  // namespace

cli::Command put_command() {
  const auto options = std::make_shared<PutOptions>();
  cli::Command command = describe("put", kAboutPut);
  command.word("FILE", options->file, "file to read; - is standard input")
      .word("OBJECT", options->object, "name or id (high:low)");
  add_data_option(command, options->store);
  command
      .option("--name", options->name, "NAME", "also give the object this name, if OBJECT is an id")
      .option("--offset", options->offset, "SIZE",
              "write at this offset and keep the rest of the object")
      .flag("--append", options->append, "append to the object")
      .exclude("--append", "--offset")
      .flag("--new", options->only_new, "fail if the object exists");
  add_writing_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return put(*options); });
}

}  // namespace verbena::store_cli
