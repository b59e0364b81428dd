// SPDX-License-Identifier: Apache-2.0
// `verbena ls` and `verbena stat`: which objects there are, and what they are.
#include <memory>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_view.h"
#include "store_cli/options.h"
#include "store_cli/print.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutLs = R"text(  verbena ls --data /srv/store
  verbena ls --data /srv/store photos/          names with this prefix
  verbena ls --data /srv/store --json | jq -r '.objects[].name'
)text";

constexpr const char* kAboutStat = R"text(  verbena stat --data /srv/store photos/1.jpg 7:42
  verbena stat --data /srv/store --segments image    where its segments are, and which are shared
)text";

struct ListOptions {
  StoreChoice store;
  Speech speech;
  std::string prefix;
  std::vector<std::string> objects;
  bool segments = false;
};

// A list may be long: it is printed as it is read, the JSON document too.
class Listing {
 public:
  explicit Listing(const Report& report) : report_(report) {}
  void take(const store::ObjectInfo& object) {
    if (!report_.json()) {
      // No head over nothing, and none for those who only want the first line.
      if (count_ == 0 && !report_.speech().quiet) print_text(table_head());
      print("{}", table_line(object, report_));
    } else {
      print("{}\n    {}", count_ == 0 ? "{\n  \"objects\": [" : ",",
                 dump(json_of(object), -1));
    }
    ++count_;
  }
  void finish() const {
    if (!report_.json()) return;
    print("{}],\n  \"errors\": {}\n}}\n", count_ == 0 ? "{\n  \"objects\": [" : "\n  ",
               dump(report_.errors(), -1));
  }

 private:
  const Report& report_;
  uint64_t count_ = 0;
};

int ls(const ListOptions& options) {
  catch_interrupts();
  Report report("ls", options.speech);
  auto opened = open_store(options.store, Need::kRead, report);
  Listing listing(report);
  if (opened) {
    constexpr size_t kAtOnce = 1000;
    const store::Store& store = opened->directory.store();
    std::optional<store::Cursor> after;
    // Nobody has the id 0:0.
    if (!options.prefix.empty()) after = store::Cursor{options.prefix, {}};
    for (bool more = true; more && output_error() == 0 && interrupted() == 0;) {
      const auto page = store.list(after, kAtOnce);
      more = page.size() == kAtOnce;
      for (const store::ObjectInfo& object : page) {
        if (!object.name.starts_with(options.prefix)) {
          more = false;
          break;
        }
        if (object.id.high != kDraftHigh) listing.take(object);
      }
      if (!page.empty()) after = store::Cursor{page.back().name, page.back().id};
    }
  }
  if (const int signal = interrupted(); signal != 0) report.interrupted(signal, "interrupted");
  listing.finish();
  return report.finish_output();
}

int stat(const ListOptions& options) {
  catch_interrupts();
  Report report("stat", options.speech);
  auto shown = nlohmann::ordered_json::array();
  auto opened = open_store(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  const store::Store& store = opened->directory.store();
  for (const std::string& text : options.objects) {
    const auto object = find_object(store, text, report);
    if (!object) continue;
    if (report.json()) {
      shown.push_back(json_of(*object));
    } else {
      print("{}", paragraph(*object, report));
    }
    if (!options.segments) continue;
    if (report.json()) {
      auto segments = json_of_segments(store, object->id);
      if (!segments) report.error(segments.error(), text);
      shown.back()["segment_list"] = segments.value_or(nlohmann::ordered_json::array());
    } else if (const auto printed = print_segments(store, object->id, report); !printed) {
      report.error(printed.error(), text);
    }
  }
  report.fields["objects"] = std::move(shown);
  return report.finish();
}

}  // namespace

cli::Command ls_command() {
  const auto options = std::make_shared<ListOptions>();
  cli::Command command = describe("ls", kAboutLs);
  command.optional_word("PREFIX", options->prefix, "list only names with this prefix");
  add_data_option(command, options->store);
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return ls(*options); });
}

cli::Command stat_command() {
  const auto options = std::make_shared<ListOptions>();
  cli::Command command = describe("stat", kAboutStat);
  command.words("OBJECT", "OBJECT...", options->objects, "names or ids (high:low)");
  add_data_option(command, options->store);
  command.flag("--segments", options->segments, "show the segments of each object");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return stat(*options); });
}

}  // namespace verbena::store_cli
