// SPDX-License-Identifier: Apache-2.0
// `verbena flush` and `verbena evict`: when changes are durable, and what is behind a cache.
#include <memory>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutFlush =
    R"text(On a server, all changes that were acknowledged before are durable afterwards, also those of other
clients. The commands flush their own changes when they end; programs that do not can rely on this.
A server that is a cache (serve --backend) then has it behind as well: of these objects, or of all
if none is named. In a directory, the store is opened and closed: what a crash has left is
completed.

  verbena flush --server node1
  verbena flush --server node1 photos/1.jpg
  verbena flush --data /srv/store
)text";

constexpr const char* kAboutEvict =
    R"text(For a server that is a cache (serve --backend): what is behind it as well leaves its memory, of the
objects, or of all if there are none. What is only in the cache stays: `verbena flush` comes
first. Objects can be used as before; their bytes are fetched again.

  verbena evict --server node1 photos/1.jpg
  verbena evict --server node1
)text";

struct BehindOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> objects;
};

using store::BehindAction;

void go_behind(store::Objects& store, const BehindOptions& options, BehindAction action,
               Report& report) {
  uint64_t evicted = 0;
  if (options.objects.empty()) {
    const auto done = store.go_behind(std::nullopt, action);
    // Where nothing is behind, all is flushed that can be.
    const bool nothing = !done && done.error().code == store::Code::kUnsupported;
    if (nothing && action == BehindAction::kFlush) return;
    if (!done) return report.error(done.error());
    evicted = done->evicted;
  }
  for (const std::string& called : options.objects) {
    if (interrupted() != 0 || report.unreachable()) break;
    const auto found = find_object(store, called, report);
    if (!found) continue;
    const auto done = store.go_behind(found->id, action);
    if (!done) {
      report.error(done.error(), called);
      continue;
    }
    evicted += done->evicted;
  }
  if (action == BehindAction::kEvict) report.fields["evicted_bytes"] = evicted * store::kDataBytes;
}

int flush(const BehindOptions& options) {
  catch_interrupts();
  Report report("flush", options.speech);
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  go_behind(opened->objects(), options, BehindAction::kFlush, report);
  close_objects(*opened, report);
  return report.finish();
}

int evict(const BehindOptions& options) {
  catch_interrupts();
  Report report("evict", options.speech);
  auto opened = open_objects(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  go_behind(opened->objects(), options, BehindAction::kEvict, report);
  close_objects(*opened, report);
  return report.finish();
}

}  // namespace

cli::Command flush_command() {
  const auto options = std::make_shared<BehindOptions>();
  cli::Command command = describe("flush", kAboutFlush);
  command.optional_words("OBJECT", "[OBJECT...]", options->objects,
                         "of a cache: names or ids (high:low); none: all");
  add_store_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return flush(*options); });
}

cli::Command evict_command() {
  const auto options = std::make_shared<BehindOptions>();
  cli::Command command = describe("evict", kAboutEvict);
  command.optional_words("OBJECT", "[OBJECT...]", options->objects,
                         "names or ids (high:low); none: all");
  add_store_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  return command.action([options] { return evict(*options); });
}

}  // namespace verbena::store_cli
