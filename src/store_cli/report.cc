// SPDX-License-Identifier: Apache-2.0
#include "store_cli/report.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "store_cli/interrupts.h"
#include "store_cli/object_name.h"
#include "store_cli/print.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {

using nlohmann::ordered_json;

void Report::say(std::string_view what) const {
  const std::string line = fmt::format("verbena {}: {}\n", command_, printable(what));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Report::note(std::string_view what) const {
  if (!speech_.quiet) say(what);
}

bool Report::has_room() {
  if (errors_.size() < kMaxErrors) return true;
  ++left_out_;
  return false;
}

void Report::error(const store::Error& error, std::string_view object) {
  using store::Code;
  unreachable_ = unreachable_ || error.code == Code::kUnreachable;
  store_failed_ = store_failed_ || unreachable_ || error.code == Code::kFull ||
                  error.code == Code::kReadOnly || error.code == Code::kIo ||
                  error.code == Code::kNoMemory;
  if (!has_room()) return;
  ordered_json entry{{"code", store::name_of(error.code)}, {"message", error.what}};
  if (!object.empty()) entry["object"] = object;
  say(object.empty() ? error.what : fmt::format("{}: {}", object, error.what));
  if (error.code == store::Code::kDamaged && !error.damage.field.empty()) {
    entry["damage"] = json_of(error.damage);
  }
  errors_.push_back(std::move(entry));
  if (status_ == kDone) status_ = exit_status_of(error.code);
}

void Report::error(ExitStatus status, std::string_view code, std::string_view what) {
  if (!has_room()) return;
  say(what);
  errors_.push_back({{"code", code}, {"message", what}});
  if (status_ == kDone) status_ = status;
}

void Report::interrupted(int signal, std::string_view what) {
  say(what);
  errors_.push_back({{"code", "interrupted"}, {"message", what}});
  if (status_ == kDone) status_ = exit_status_of_signal(signal);
}

int Report::finish() {
  if (speech_.json) {
    fields["errors"] = errors_;
    if (left_out_ > 0) fields["errors_left_out"] = left_out_;
    const std::string text = dump(fields) + "\n";
    if (document_to_stderr_) {
      std::fwrite(text.data(), 1, text.size(), stderr);
    } else {
      print_text(text);
    }
  }
  return finish_output();
}

int Report::finish_output() {
  if (left_out_ > 0) say(fmt::format("... and {} more errors", left_out_));
  const int error = flush_output();
  if (error == 0) return status_;
  // Who reads has seen enough, as in `| head`: the way of all commands.
  if (error == EPIPE) end_by_broken_pipe();
  say(fmt::format("cannot write to standard output: {}", std::strerror(error)));
  return status_ == kDone ? kNotDone : status_;
}

int Report::finish_service() { return flush_output() == EPIPE ? status_ : finish_output(); }

std::string Report::size(uint64_t bytes) const {
  return speech_.bytes ? std::to_string(bytes) : human_size(bytes);
}

ordered_json json_of(const store::Damage& damage) {
  const bool of_object = damage.object != store::ObjectId{};
  return {{"object", of_object ? ordered_json(text_of(damage.object)) : ordered_json(nullptr)},
          {"offset", damage.offset},
          {"chunk", damage.chunk},
          {"field", damage.field},
          {"expected", damage.expected},
          {"actual", damage.actual}};
}

std::string sentence_of(const store::Damage& damage) {
  if (store::is_file(damage)) {
    return fmt::format("{} is {}, expected {}", damage.field, damage.actual, damage.expected);
  }
  const std::string where = damage.object == store::ObjectId{}
                                ? fmt::format("chunk {} of the log or superblock", damage.chunk)
                                : fmt::format("object {} at offset {} (chunk {})",
                                              text_of(damage.object), damage.offset, damage.chunk);
  return fmt::format("{}: {} is {}, expected {}", where, damage.field, damage.actual,
                     damage.expected);
}

std::string incomplete_note(const store::Damage& copy) {
  return fmt::format(
      "the {} has an incomplete copy (chunk {}), as a crash may leave it; the other copy is valid, "
      "and the next command that writes to the store completes it",
      copy.field, copy.chunk);
}

std::string dump(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

namespace {

[[nodiscard]] std::string time_text(const std::tm& time, const char* format) {
  std::array<char, 64> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &time)};
}

constexpr uint64_t kSecondNs = 1'000'000'000;

}  // namespace

std::string utc_time(uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / kSecondNs);
  std::tm time{};
  ::gmtime_r(&seconds, &time);
  return fmt::format("{}.{:09}Z", time_text(time, "%Y-%m-%dT%H:%M:%S"), ns % kSecondNs);
}

std::string local_time(uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / kSecondNs);
  std::tm time{};
  ::localtime_r(&seconds, &time);
  return time_text(time, "%Y-%m-%d %H:%M:%S");
}

}  // namespace verbena::store_cli
