// SPDX-License-Identifier: Apache-2.0
#include "store_cli/put_session.h"

#include <fmt/format.h>

#include "store_cli/input_file.h"
#include "store_cli/interrupts.h"

namespace verbena::store_cli {

bool PutSession::open() {
  if (opened_) return true;
  opened_ = open_objects(choice_, Need::kCreate, report_);
  if (opened_) created_ = created_ || opened_->created();
  return opened_.has_value();
}

bool PutSession::commit() {
  open_objects_ = 0;
  const auto done = store().flush();
  if (!done) report_.error(done.error());
  return done.has_value();
}

bool PutSession::put(const std::string& path, const std::string& object, bool only_new) {
  const auto wrong = [&](ExitStatus status, const char* code, const std::string& what) {
    transferred_.bar.clear();
    report_.error(status, code, what);
    return true;  // the next one may do
  };
  const auto name = parse_object(object);
  if (!name) return wrong(kUsage, "invalid", fmt::format("{}: {}", path, name.error()));
  auto input = InputFile::open(path);
  if (!input) return wrong(kNotDone, "io", input.error());
  // It would keep others from the store for as long as it likes.
  if (input->is_stream()) return wrong(kNotDone, "io", path + ": is not a regular file");
  if (!open()) return false;
  const auto done = put_object(store(), {.shown = object, .object = *name, .only_new = only_new},
                               *input, transferred_, report_);
  if (interrupted() != 0) return false;
  if (!done) return !report_.store_failed();
  ++objects_;
  bytes_ += done->bytes;
  return ++open_objects_ < kCommitObjects || commit();
}

void PutSession::pause() {
  if (!opened_) return;
  if (opened_->local) return close();
  if (open_objects_ > 0) static_cast<void>(commit());
}

void PutSession::close() {
  transferred_.bar.clear();
  if (opened_) close_objects(*opened_, report_);
  opened_.reset();
  open_objects_ = 0;
}

}  // namespace verbena::store_cli
