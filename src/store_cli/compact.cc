// SPDX-License-Identifier: Apache-2.0
// `verbena compact`: space that objects no longer use goes back to the file system.
#include <memory>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_name.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"
#include "store_cli/progress.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutCompact =
    R"text(Moves data from the last files of the store to free space in the others, and removes files that are
empty then. Objects do not change, nor do their times. Interrupting it, a crash, or a power failure
loses nothing: run it again to go on. Needs no extra space. The smallest store has one file of
64 MiB in each directory.

  verbena compact /srv/store
  verbena compact --json --data /srv/store
)text";

struct CompactOptions {
  StoreChoice store;
  Speech speech;
};

void show(const store::CompactReport& done, uint64_t block_bytes, Report& report) {
  report.fields["moved_bytes"] = done.moved * store::kDataBytes;
  report.fields["bytes_before"] = done.blocks_before * block_bytes;
  report.fields["bytes"] = done.blocks * block_bytes;
  report.fields["complete"] = done.whole;
  if (!report.json() && !report.speech().quiet) {
    print("moved {}; the store has {} in files, {} less than before\n",
          report.size(done.moved * store::kDataBytes), report.size(done.blocks * block_bytes),
          report.size((done.blocks_before - done.blocks) * block_bytes));
  }
  for (const store::Damage& damage : done.damage) {
    report.error(kDamaged, "damaged", "not moved: " + printable(sentence_of(damage)));
  }
  if (!done.whole && done.damage.empty() && interrupted() == 0) {
    report.note(
        "not all data could be moved: there is too little free space, or thousands of parts of "
        "objects share chunks");
  }
}

int compact(const CompactOptions& options) {
  catch_interrupts();
  Report report("compact", options.speech);
  auto opened = open_store(options.store, Need::kWrite, report);
  if (!opened) return report.finish();
  store::Store& store = opened->directory.store();
  const uint64_t block_bytes = uint64_t{store.info().chunks_per_block} * store::kChunkBytes;
  ProgressBar progress(report.shows_progress(), "compact", 0);
  const auto done = store.compact([&](uint64_t chunks, uint64_t all) {
    progress.update(chunks * store::kChunkBytes, all * store::kChunkBytes);
    return interrupted() == 0;
  });
  progress.clear();
  if (!done) {
    report.error(done.error());
  } else {
    show(*done, block_bytes, report);
  }
  close_store(*opened, report);
  if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted; what was moved is moved");
  }
  return report.finish();
}

}  // namespace

cli::Command compact_command() {
  const auto options = std::make_shared<CompactOptions>();
  cli::Command command = describe("compact", kAboutCompact);
  add_folder_words(command, options->store);
  add_data_option(command, options->store);
  refuse_server(command, "when the server has ended");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return compact(*options); });
}

}  // namespace verbena::store_cli
