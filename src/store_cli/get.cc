// SPDX-License-Identifier: Apache-2.0
// `verbena get`: an object, or a part of it, becomes a file; whole and right, or not at all.
#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/options.h"
#include "store_cli/output_file.h"
#include "store_cli/progress.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutGet =
    R"text(Every byte is verified against the checksums made by put. A file is created, or an existing one
replaced, only when it is complete and verified; only verified data is written to a pipe.

  verbena get --data /srv/store photos/1.jpg photo.jpg
  verbena get --data /srv/store src.tar - | tar x
  verbena get --data /srv/store --offset 1M --length 4K image piece
)text";

struct GetOptions {
  StoreChoice store;
  Speech speech;
  std::string object;
  std::string file;
  std::string offset = "0";
  std::string length;
  bool keep_going = false;
};

class Get {
 public:
  Get(const GetOptions& options, Report& report, const store::Store& store)
      : options_(options), report_(report), store_(store) {}

  [[nodiscard]] bool find(uint64_t offset, uint64_t length);
  void copy();

 private:
  void transfer(OutputFile& file, ProgressBar& progress);
  // Reads a piece, with zeros for what is damaged if that is wanted.
  [[nodiscard]] bool read(uint64_t at, std::span<uint8_t> piece, ProgressBar& progress);
  [[nodiscard]] bool read_what_is_left(uint64_t at, std::span<uint8_t> piece);
  // Into a pipe, what went there before an error has been seen.
  void say_how_much(const OutputFile& file);

  const GetOptions& options_;
  Report& report_;
  const store::Store& store_;
  store::ObjectInfo object_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  uint64_t done_ = 0;
  uint64_t zeroed_ = 0;
};

bool Get::find(uint64_t offset, uint64_t length) {
  auto found = find_object(store_, options_.object, report_);
  if (!found) return false;
  object_ = std::move(*found);
  if (offset > object_.size) {
    report_.error({store::Code::kInvalid,
                   fmt::format("--offset {} is past the end of the object, which has {} bytes",
                               offset, object_.size),
                   {}},
                  options_.object);
    return false;
  }
  begin_ = offset;
  end_ = length < object_.size - offset ? offset + length : object_.size;
  return true;
}

bool Get::read_what_is_left(uint64_t at, std::span<uint8_t> piece) {
  while (!piece.empty()) {
    // One chunk's part at a time: what is damaged is lost by the chunk.
    const size_t bytes = std::min<size_t>(piece.size(), store::kDataBytes - at % store::kDataBytes);
    const auto got = store_.read(object_.id, at, piece.first(bytes));
    if (!got) {
      report_.error(got.error(), options_.object);
      if (got.error().code != store::Code::kDamaged) return false;
      std::memset(piece.data(), 0, bytes);
      zeroed_ += bytes;
    }
    at += bytes;
    piece = piece.subspan(bytes);
  }
  return true;
}

bool Get::read(uint64_t at, std::span<uint8_t> piece, ProgressBar& progress) {
  const auto got = store_.read(object_.id, at, piece);
  if (got && *got == piece.size()) return true;
  progress.clear();
  if (!got && got.error().code == store::Code::kDamaged && options_.keep_going) {
    return read_what_is_left(at, piece);
  }
  report_.error(
      got ? store::Error{store::Code::kIo, "shorter than its recorded size", {}} : got.error(),
      options_.object);
  return false;
}

void Get::say_how_much(const OutputFile& file) {
  if (!file.seen_at_once()) return;
  report_.note(
      fmt::format("{} of {} bytes were written, all verified", file.written(), end_ - begin_));
}

void Get::transfer(OutputFile& file, ProgressBar& progress) {
  constexpr size_t kPiece = 1024 * store::kDataBytes;
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kPiece);
  while (begin_ + done_ < end_) {
    const uint64_t at = begin_ + done_;
    const std::span<uint8_t> piece(buffer.get(),
                                   std::min<uint64_t>(end_ - at, kPiece - at % store::kDataBytes));
    if (!read(at, piece, progress)) return say_how_much(file);
    const auto wrote = file.write(piece);
    if (const int signal = interrupted(); signal != 0) {
      progress.clear();
      report_.interrupted(signal, "interrupted");
      return say_how_much(file);
    }
    if (!wrote) {
      progress.clear();
      report_.error(kNotDone, "io", wrote.error());
      return say_how_much(file);
    }
    done_ += piece.size();
    progress.update(done_);
  }
}

void Get::copy() {
  auto file = OutputFile::open(options_.file, end_ - begin_);
  if (!file) {
    report_.error(kNotDone, "io", file.error());
    return;
  }
  ProgressBar progress(report_.shows_progress(), "get", end_ - begin_);
  transfer(*file, progress);
  const bool whole = begin_ + done_ == end_ && interrupted() == 0;
  if (whole) {
    if (const auto placed = file->finish(); !placed) {
      progress.clear();
      report_.error(kNotDone, "io", placed.error());
    }
  }
  report_.fields["object"] = json_of(object_);
  report_.fields["offset"] = begin_;
  report_.fields["bytes_read"] = done_;
  report_.fields["bytes_zeroed"] = zeroed_;
}

int get(const GetOptions& options) {
  catch_interrupts();
  Report report("get", options.speech);
  if (options.file == "-") report.yield_output();
  const auto offset = parse_size(options.offset);
  const auto length = options.length.empty() ? UINT64_MAX : parse_size(options.length);
  if (!offset || !length) {
    report.error(kUsage, "invalid",
                 offset ? "--length: " + length.error() : "--offset: " + offset.error());
    return report.finish();
  }
  auto opened = open_store(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  Get work(options, report, opened->directory.store());
  if (work.find(*offset, *length)) work.copy();
  return report.finish();
}

}  // namespace

cli::Command get_command() {
  const auto options = std::make_shared<GetOptions>();
  cli::Command command = describe("get", kAboutGet);
  command.word("OBJECT", options->object, "name or id (high:low)")
      .word("FILE", options->file, "file to write; - is standard output");
  add_data_option(command, options->store);
  command.option("--offset", options->offset, "SIZE", "start at this offset (default 0)")
      .option("--length", options->length, "SIZE",
              "read at most this many bytes (default: to the end)")
      .flag("--keep-going", options->keep_going,
            "where the object is damaged, report it and write zeros; the\n"
            "exit status is still 4");
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return get(*options); });
}

}  // namespace verbena::store_cli
