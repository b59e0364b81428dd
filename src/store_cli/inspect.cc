// SPDX-License-Identifier: Apache-2.0
// `verbena inspect`: a store as a whole: how it was opened, what space it has, what is in it.
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/drafts.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_name.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"

namespace verbena::store_cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAboutInspect =
    R"text(Opens the store read-only and changes nothing. `verbena scrub` also verifies all data.

  verbena inspect /srv/store
  verbena inspect --data /srv/store
  verbena inspect --segments --json /srv/store
)text";

struct InspectOptions {
  StoreChoice store;
  Speech speech;
  bool segments = false;
};

[[nodiscard]] ordered_json info_json(const store::StoreInfo& info) {
  return {{"tag", fmt::format("{:08x}", info.tag)},
          {"created", utc_time(info.created_ns)},
          {"folders", info.media},
          {"chunks_per_block", info.chunks_per_block},
          {"epoch", info.epoch},
          {"generation", info.generation}};
}

[[nodiscard]] ordered_json space_json(const store::SpaceInfo& space) {
  return {{"capacity_chunks", space.capacity}, {"used_chunks", space.used},
          {"pending_chunks", space.pending},   {"free_chunks", space.free},
          {"log_chunks", space.log},           {"chunk_data_bytes", store::kDataBytes},
          {"mappings", space.mappings},        {"index_bytes", space.index_bytes}};
}

[[nodiscard]] ordered_json opening_json(const store::OpenReport& opening) {
  ordered_json damage = ordered_json::array();
  for (const store::Damage& one : opening.files) damage.push_back(json_of(one));
  for (const store::Damage& one : opening.damage) damage.push_back(json_of(one));
  return {{"clean", opening.clean},
          {"log_chunks_replayed", opening.log_chunks},
          {"chunks_verified", opening.verified_chunks},
          {"transactions_dropped", opening.dropped_transactions},
          {"damage", damage},
          {"incomplete", opening.incomplete.size()}};
}

void print_summary(const std::string& where, const OpenedStore& opened, const Report& report,
                   store::Store& store) {
  const store::OpenReport& opening = opened.report;
  const store::SpaceInfo space = store.space();
  const auto data = [&](uint64_t chunks) { return report.size(chunks * store::kDataBytes); };
  const store::StoreInfo info = store.info();
  print("store {:08x} in {}\n", info.tag, printable(where));
  print("  created   {}\n", local_time(info.created_ns));
  print("  opened    {} time{} for writing\n", info.epoch, info.epoch == 1 ? "" : "s");
  print("  medium    {}\n", store.medium_properties().name);
  print("  closed    {}\n", opening.clean
                                ? std::string("cleanly")
                                : fmt::format("not cleanly: {} log chunks replayed, {} data chunks "
                                              "verified, {} unfinished transactions dropped",
                                              opening.log_chunks, opening.verified_chunks,
                                              opening.dropped_transactions));
  print("  objects   {}\n", opening.objects);
  print("  space     {} used, {} free of {}{}\n", data(space.used), data(space.free),
        data(space.capacity),
        space.pending == 0 ? "" : fmt::format("; {} to be freed", data(space.pending)));
  print("  log       {} chunks\n", space.log);
  print("  index     {} mappings, {} of memory\n", space.mappings, report.size(space.index_bytes));
  for (const store::Damage& one : opening.incomplete) {
    print("  crash     {}\n", printable(incomplete_note(one)));
  }
  if (opening.damage.empty() && opening.files.empty()) print("  damage    none found on open\n");
  for (const store::Damage& file : opening.files) {
    print("  damage    {}\n", printable(sentence_of(file)));
  }
  for (const store::Damage& damage : opening.damage) {
    print("  damage    {}\n", printable(sentence_of(damage)));
  }
}

void show_objects(const store::Objects& store, bool segments, Report& report) {
  auto list = ordered_json::array();
  constexpr size_t kAtOnce = 1000;
  std::optional<store::Cursor> after;
  bool head = false;
  for (bool more = true; more && interrupted() == 0 && output_error() == 0;) {
    const auto listed = store.list(after, kAtOnce);
    if (!listed) {
      report.error(listed.error());
      break;
    }
    const auto& page = *listed;
    more = page.size() == kAtOnce;
    if (!page.empty()) after = store::Cursor{page.back().name, page.back().id};
    for (const store::ObjectInfo& object : page) {
      const bool draft = store::is_hidden(object.id);
      if (report.json()) {
        ordered_json entry = json_of(object);
        entry["unfinished"] = draft;
        if (segments) {
          auto all = json_of_segments(store, object.id);
          if (!all) report.error(all.error(), text_of(object.id));
          entry["segment_list"] = all.value_or(ordered_json::array());
        }
        list.push_back(std::move(entry));
        continue;
      }
      if (!head) print("\n{}", table_head());
      head = true;
      store::ObjectInfo shown = object;
      if (draft) shown.name = "(unfinished put)";
      print("{}", table_line(shown, report));
      if (!segments) continue;
      if (const auto printed = print_segments(store, object.id, report); !printed) {
        report.error(printed.error(), text_of(object.id));
      }
    }
  }
  report.fields["objects"] = std::move(list);
}

int inspect(const InspectOptions& options) {
  catch_interrupts();
  Report report("inspect", options.speech);
  auto opened = open_store(options.store, Need::kReadAll, report);
  if (!opened) return report.finish();
  store::Store& store = opened->directory.store();
  if (report.json()) {
    report.fields["store"] = info_json(store.info());
    report.fields["medium"] = store.medium_properties().name;
    report.fields["opening"] = opening_json(opened->report);
    report.fields["space"] = space_json(store.space());
  } else {
    print_summary(fmt::format("{}", fmt::join(folders_of(options.store), ", ")), *opened, report,
                  store);
  }
  show_objects(store, options.segments, report);
  if (const int signal = interrupted(); signal != 0) report.interrupted(signal, "interrupted");
  if (!opened->report.damage.empty() || !opened->report.files.empty()) {
    report.error(kDamaged, "damaged", "the store is damaged: see above");
  }
  return report.finish();
}

}  // namespace

cli::Command inspect_command() {
  const auto options = std::make_shared<InspectOptions>();
  cli::Command command = describe("inspect", kAboutInspect);
  add_folder_words(command, options->store);
  add_data_option(command, options->store);
  refuse_server(command, "when the server has ended");
  command.flag("--segments", options->segments, "show the segments of each object");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return inspect(*options); });
}

}  // namespace verbena::store_cli
