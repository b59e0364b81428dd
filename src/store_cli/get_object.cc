// SPDX-License-Identifier: Apache-2.0
#include "store_cli/get_object.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"

namespace verbena::store_cli {
namespace {

class Get {
 public:
  Get(const store::Objects& store, const GetRequest& request, OutputFile& file,
      Transferred& transferred, Report& report)
      : request_(request), file_(file), transferred_(transferred), report_(report), store_(store) {}

  [[nodiscard]] GetResult run();

 private:
  [[nodiscard]] bool copy();
  [[nodiscard]] bool copy_piece(uint64_t at, std::span<uint8_t> piece);
  // Reads a piece, with zeros for what is damaged if that is wanted.
  [[nodiscard]] bool read(uint64_t at, std::span<uint8_t> piece);
  [[nodiscard]] bool read_what_is_left(uint64_t at, std::span<uint8_t> piece);
  // What became of a write, and of a signal meanwhile.
  [[nodiscard]] bool wrote(const Result<void, std::string>& result);

  const GetRequest& request_;
  OutputFile& file_;
  Transferred& transferred_;
  Report& report_;
  const store::Objects& store_;
  GetResult result_;
};

bool Get::read_what_is_left(uint64_t at, std::span<uint8_t> piece) {
  while (!piece.empty()) {
    // One chunk's part at a time: what is damaged is lost by the chunk.
    const size_t bytes = std::min<size_t>(piece.size(), store::kDataBytes - at % store::kDataBytes);
    const auto got = store_.read(request_.object.id, at, piece.first(bytes));
    if (!got) {
      report_.error(got.error(), request_.shown);
      if (got.error().code != store::Code::kDamaged) return false;
      std::memset(piece.data(), 0, bytes);
      result_.zeroed += bytes;
    }
    at += bytes;
    piece = piece.subspan(bytes);
  }
  return true;
}

bool Get::read(uint64_t at, std::span<uint8_t> piece) {
  const auto got = store_.read(request_.object.id, at, piece);
  if (got && *got == piece.size()) return true;
  transferred_.bar.clear();
  if (!got && got.error().code == store::Code::kDamaged && request_.keep_going) {
    return read_what_is_left(at, piece);
  }
  report_.error(
      got ? store::Error{store::Code::kIo, "shorter than its recorded size", {}} : got.error(),
      request_.shown);
  return false;
}

bool Get::wrote(const Result<void, std::string>& result) {
  const int error = result ? 0 : errno;
  if (const int signal = interrupted(); signal != 0) {
    transferred_.bar.clear();
    report_.interrupted(signal, "interrupted");
    return false;
  }
  if (result) return true;
  transferred_.bar.clear();
  if (error == EPIPE && request_.ends_with_reader) end_by_broken_pipe();
  report_.error(kNotDone, "io", result.error());
  return false;
}

bool Get::copy_piece(uint64_t at, std::span<uint8_t> piece) {
  if (!read(at, piece) || !wrote(file_.write(piece))) return false;
  result_.bytes += piece.size();
  transferred_.bar.update(transferred_.bytes + result_.bytes);
  return true;
}

bool Get::copy() {
  const size_t most = store_.piece_bytes();
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(most);
  for (uint64_t at = request_.begin; at < request_.end;) {
    const auto data = next_data(store_, request_.object, at, request_.end);
    if (!data) {
      report_.error(data.error(), request_.shown);
      return false;
    }
    if (data->begin > at) {
      if (!wrote(file_.skip(data->begin - at))) return false;
      result_.bytes += data->begin - at;
    }
    for (at = data->begin; at < data->end;) {
      const uint64_t room = most - at % store::kDataBytes;
      const auto bytes = static_cast<size_t>(std::min(data->end - at, room));
      if (!copy_piece(at, {buffer.get(), bytes})) return false;
      at += bytes;
    }
  }
  return true;
}

GetResult Get::run() {
  result_.whole = copy() && interrupted() == 0;
  transferred_.bytes += result_.bytes;
  // Into a pipe, what went there before an error has been seen.
  if (!result_.whole && file_.seen_at_once()) {
    report_.note(fmt::format("{} of {} bytes were written, all verified", file_.written(),
                             request_.end - request_.begin));
  }
  return result_;
}

}  // namespace

OutputFile::Extent extent_of(const GetRequest& request) {
  const uint64_t size = request.end - request.begin;
  return {size, std::min(size, request.object.chunks * store::kDataBytes)};
}

GetResult get_object(const store::Objects& store, const GetRequest& request, OutputFile& file,
                     Transferred& transferred, Report& report) {
  return Get(store, request, file, transferred, report).run();
}

}  // namespace verbena::store_cli
