// SPDX-License-Identifier: Apache-2.0
// `verbena ls` and `verbena stat`: which objects there are, and what they are.
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "cli/interrupts.h"
#include "cli/object_view.h"
#include "cli/store_commands.h"
#include "cli/store_options.h"

namespace verbena::cli {
namespace {

constexpr const char* kAboutLs = R"text(Lists objects, in order of their names.

  verbena ls --data /srv/store
  verbena ls --data /srv/store photos/          those whose names begin so
  verbena ls --data /srv/store --json | jq -r '.objects[].name'
)text";

constexpr const char* kAboutStat = R"text(Shows what is known about objects.

  verbena stat --data /srv/store photos/1.jpg 7:42
  verbena stat --data /srv/store --segments image    where its pieces lie, and which are shared
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
      if (count_ == 0 && !report_.speech().quiet) fmt::print("{}", table_head());
      fmt::print("{}", table_line(object, report_));
    } else {
      fmt::print("{}\n    {}", count_ == 0 ? "{\n  \"objects\": [" : ",",
                 dump(json_of(object), -1));
    }
    ++count_;
  }
  void finish() const {
    if (!report_.json()) return;
    fmt::print("{}],\n  \"errors\": {}\n}}\n", count_ == 0 ? "{\n  \"objects\": [" : "\n  ",
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
    for (bool more = true; more && std::ferror(stdout) == 0 && interrupted() == 0;) {
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
      fmt::print("{}", paragraph(*object, report));
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

Command add_ls(CLI::App& to) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App* const app = to.add_subcommand("ls", kAboutLs);
  app->add_option("PREFIX", options->prefix, "only names that begin so");
  add_data_option(*app, options->store);
  add_speech_options(*app, options->speech, Shows::kSizes);
  return {app, [options](const auto&) { return ls(*options); }};
}

Command add_stat(CLI::App& to) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App* const app = to.add_subcommand("stat", kAboutStat);
  app->add_option("OBJECT", options->objects, "names, or high:low")->required();
  add_data_option(*app, options->store);
  app->add_flag("--segments", options->segments, "where the pieces lie, too");
  add_speech_options(*app, options->speech, Shows::kSizes);
  return {app, [options](const auto&) { return stat(*options); }};
}

}  // namespace verbena::cli
