// SPDX-License-Identifier: Apache-2.0
// `verbena cat`: objects, one behind the other, to the standard output.
#include <memory>

#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/get_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/progress.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutCat =
    R"text(Only verified data is written. Objects that do not exist are reported, and the others are written.

  verbena cat --data /srv/store log.1 log.2 | grep error
)text";

struct CatOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> objects;
};

int cat(const CatOptions& options) {
  catch_interrupts();
  Report report("cat", options.speech);
  report.yield_output();
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  const store::Objects& store = opened->objects();
  auto file = OutputFile::open("-", 0);
  if (!file) {
    report.error(kNotDone, "io", file.error());
    return report.finish();
  }
  ProgressBar bar(report.shows_progress(), "cat", 0);
  Transferred transferred{bar};
  auto shown = nlohmann::ordered_json::array();
  for (const std::string& text : options.objects) {
    if (report.unreachable()) break;
    const auto object = find_object(store, text, report);
    if (!object) continue;
    const GetRequest request{.shown = text,
                             .object = *object,
                             .begin = 0,
                             .end = object->size,
                             .ends_with_reader = true};
    const GetResult done = get_object(store, request, *file, transferred, report);
    // What comes behind a gap is not what was asked for.
    if (!done.whole) break;
    shown.push_back(json_of(*object));
  }
  bar.clear();
  report.fields["objects"] = std::move(shown);
  report.fields["bytes_read"] = transferred.bytes;
  return report.finish();
}

}  // namespace

cli::Command cat_command() {
  const auto options = std::make_shared<CatOptions>();
  cli::Command command = describe("cat", kAboutCat);
  command.words("OBJECT", "OBJECT...", options->objects, "names or ids (high:low)");
  add_store_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return cat(*options); });
}

}  // namespace verbena::store_cli
