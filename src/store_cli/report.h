// SPDX-License-Identifier: Apache-2.0
// How a command of the store speaks: reasons and remarks to people on the standard error, its
// result on the standard output, as text or with --json as one document; and the exit status.
//
// The document has the command's own fields and always "errors", a list of
// {code, message, object?, damage?}; its first decides the exit status. Past 1000 they are counted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "store/error.h"
#include "store_cli/exit_status.h"

namespace verbena::store_cli {

struct Speech {
  bool json = false;
  bool quiet = false;        // no remarks; errors are said
  bool no_progress = false;  // on a terminal either
  bool bytes = false;        // sizes exactly
};

class Report {
 public:
  Report(std::string command, const Speech& speech)
      : command_(std::move(command)), speech_(speech) {}

  // A remark, unless quiet.
  void note(std::string_view what) const;
  // What went wrong, `object` being what the user called the one it went wrong with.
  void error(const store::Error& error, std::string_view object = {});
  void error(ExitStatus status, std::string_view code, std::string_view what);
  void interrupted(int signal, std::string_view what);
  [[nodiscard]] bool failed() const { return status_ != kDone; }

  // One of the reasons is the store itself, not the object: it is full, has failed or cannot be
  // reached, and the next change would fail, too.
  [[nodiscard]] bool store_failed() const { return store_failed_; }
  // The server did not answer: each further object would take as long, for the same result.
  [[nodiscard]] bool unreachable() const { return unreachable_; }

  [[nodiscard]] bool json() const { return speech_.json; }
  [[nodiscard]] const Speech& speech() const { return speech_; }
  [[nodiscard]] bool shows_progress() const { return !speech_.no_progress && !speech_.quiet; }
  // The command's own part of the document.
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  [[nodiscard]] const nlohmann::ordered_json& errors() const { return errors_; }
  // The standard output is taken by an object's bytes: the document goes to the standard error.
  void yield_output() { document_to_stderr_ = true; }

  // Prints the document, and sees to it that the standard output took everything.
  [[nodiscard]] int finish();
  // The second half, for those who have printed the document themselves.
  [[nodiscard]] int finish_output();
  // The same for what runs for long: whoever started it may have gone after the first line.
  [[nodiscard]] int finish_service();

  // A size, as the user wants to see it.
  [[nodiscard]] std::string size(uint64_t bytes) const;

 private:
  void say(std::string_view what) const;
  // False: there have been so many that this one is only counted. A lost file of a store is a
  // damaged chunk for each 4 KiB.
  [[nodiscard]] bool has_room();
  static constexpr size_t kMaxErrors = 1000;
  std::string command_;
  Speech speech_;
  nlohmann::ordered_json errors_ = nlohmann::ordered_json::array();
  int status_ = kDone;
  bool store_failed_ = false;
  bool unreachable_ = false;
  uint64_t left_out_ = 0;  // errors
  bool document_to_stderr_ = false;
};

[[nodiscard]] nlohmann::ordered_json json_of(const store::Damage& damage);
// "object 1:2 at 4048 (chunk 77): data CRC is 0x1, not 0x2"
[[nodiscard]] std::string sentence_of(const store::Damage& damage);
// Of a copy that a crash may have left so: no damage.
[[nodiscard]] std::string incomplete_note(const store::Damage& copy);
// Text that may be any bytes, as JSON takes it.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json, int indent = 2);

// "2026-11-15T23:04:05.123456789Z", and for people "2026-11-15 23:04:05" where they are.
[[nodiscard]] std::string utc_time(uint64_t ns);
[[nodiscard]] std::string local_time(uint64_t ns);

}  // namespace verbena::store_cli
