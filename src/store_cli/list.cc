// SPDX-License-Identifier: Apache-2.0
// `verbena ls` and `verbena stat`: which objects there are, and what they are.
#include <charconv>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"
#include "store_cli/object_view.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"
#include "store_cli/progress.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutLs = R"text(  verbena ls --data /srv/store
  verbena ls --data /srv/store photos/          names with this prefix
  verbena ls --data /srv/store --limit 100 --after photos/1.jpg      the next 100
  verbena ls --data /srv/store --json | jq -r '.objects[].name'
)text";

constexpr const char* kAboutStat = R"text(  verbena stat --data /srv/store photos/1.jpg 7:42
  verbena stat --data /srv/store --crc image         and the CRC of its content
  verbena stat --data /srv/store --segments image    where its segments are, and which are shared
)text";

struct ListOptions {
  StoreChoice store;
  Speech speech;
  std::string prefix;
  std::vector<std::string> objects;
  bool segments = false;
  bool crc = false;
  std::string after;
  std::string limit;
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
      print("{}\n    {}", count_ == 0 ? "{\n  \"objects\": [" : ",", dump(json_of(object), -1));
    }
    ++count_;
    last_ = object.name.empty() ? text_of(object.id) : object.name;
  }
  [[nodiscard]] uint64_t count() const { return count_; }
  // There are others behind the last one.
  void more() { more_ = true; }
  void finish() const {
    if (!report_.json()) {
      if (more_) report_.note(fmt::format("there are more; go on with --after '{}'", last_));
      return;
    }
    const std::string next =
        more_ ? fmt::format("\n  \"next\": {},", dump(nlohmann::ordered_json(last_), -1)) : "";
    print("{}],{}\n  \"errors\": {}\n}}\n", count_ == 0 ? "{\n  \"objects\": [" : "\n  ", next,
          dump(report_.errors(), -1));
  }

 private:
  const Report& report_;
  uint64_t count_ = 0;
  std::string last_;
  bool more_ = false;
};

// What is wrong with --limit or --after, if anything is.
[[nodiscard]] std::optional<std::string> parse_page(const ListOptions& options, uint64_t& limit,
                                                    std::optional<store::Cursor>& after) {
  if (!options.limit.empty()) {
    const char* const end = options.limit.data() + options.limit.size();
    const auto [parsed, error] = std::from_chars(options.limit.data(), end, limit);
    if (error != std::errc{} || parsed != end || limit == 0) {
      return fmt::format("--limit: '{}' is not a number above 0", options.limit);
    }
  }
  if (options.after.empty()) return std::nullopt;
  const auto object = parse_object(options.after);
  if (!object) return "--after: " + object.error();
  if (const auto* const name = std::get_if<std::string>(&*object)) {
    after = store::Cursor{*name, {UINT64_MAX, UINT64_MAX}};
  } else {
    after = store::Cursor{"", std::get<store::ObjectId>(*object)};
  }
  return std::nullopt;
}

int ls(const ListOptions& options) {
  catch_interrupts();
  Report report("ls", options.speech);
  uint64_t limit = UINT64_MAX;
  std::optional<store::Cursor> after;
  if (const auto wrong = parse_page(options, limit, after)) {
    report.error(kUsage, "invalid", *wrong);
    return report.finish();
  }
  auto opened = open_objects(options.store, Need::kRead, report);
  Listing listing(report);
  if (opened) {
    const auto take = [&](const store::ObjectInfo& object) {
      if (listing.count() == limit) {
        listing.more();
        return false;
      }
      listing.take(object);
      return output_error() == 0 && interrupted() == 0;
    };
    const auto listed = each_object(opened->objects(), options.prefix, after, take);
    if (!listed) report.error(listed.error(), options.prefix);
  }
  if (const int signal = interrupted(); signal != 0) report.interrupted(signal, "interrupted");
  listing.finish();
  return report.finish_output();
}

// Nothing: `report` knows why.
[[nodiscard]] std::optional<uint32_t> crc_of(const store::Objects& store,
                                             const store::ObjectInfo& object,
                                             const std::string& shown, Report& report) {
  ProgressBar bar(report.shows_progress(), "stat", object.size);
  const auto crc = object_crc(store, object, [&](uint64_t done) {
    bar.update(done);
    return interrupted() == 0;
  });
  bar.clear();
  if (crc) return *crc;
  if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted");
  } else {
    report.error(crc.error(), shown);
  }
  return std::nullopt;
}

// None: it is not of a cache.
[[nodiscard]] std::optional<store::BehindReport> behind_of(store::Objects& store,
                                                           const store::ObjectInfo& object) {
  if (object.flushed || object.behind > 0) {
    return store::BehindReport{.only_here = object.only_here,
                               .in_both = object.chunks - object.only_here,
                               .behind = object.behind,
                               .flushed = object.flushed};
  }
  const auto report = store.go_behind(object.id, store::BehindAction::kLook);
  return report ? std::optional(*report) : std::nullopt;
}

int stat(const ListOptions& options) {
  catch_interrupts();
  Report report("stat", options.speech);
  auto shown = nlohmann::ordered_json::array();
  if (options.segments && place_of(options.store) == Place::kServer) {
    report.error(kUsage, "invalid", "--segments is for a store in a directory, not on a server");
    return report.finish();
  }
  const Need need = options.segments ? Need::kReadAll : Need::kRead;
  auto opened = open_objects(options.store, need, report);
  if (!opened) return report.finish();
  const store::Objects& store = opened->objects();
  for (const std::string& text : options.objects) {
    if (report.unreachable()) break;
    const auto object = find_object(store, text, report);
    if (!object) continue;
    const std::optional<uint32_t> crc =
        options.crc ? crc_of(store, *object, text, report) : std::nullopt;
    const auto behind = behind_of(opened->objects(), *object);
    if (report.json()) {
      shown.push_back(json_of(*object));
      if (behind) shown.back()["behind"] = json_of(*behind);
      if (crc) shown.back()["crc32"] = fmt::format("{:08x}", *crc);
    } else {
      print_text(paragraph(*object, report));
      if (behind) print("  behind    {}\n", text_of(*behind, report));
      if (crc) print("  crc32     {:08x}\n", *crc);
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
  add_store_options(command, options->store);
  command
      .option("--after", options->after, "OBJECT",
              "start behind this object: the last one of the page before")
      .option("--limit", options->limit, "COUNT", "list at most this many");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return ls(*options); });
}

cli::Command stat_command() {
  const auto options = std::make_shared<ListOptions>();
  cli::Command command = describe("stat", kAboutStat);
  command.words("OBJECT", "OBJECT...", options->objects, "names or ids (high:low)");
  add_store_options(command, options->store);
  command.flag("--segments", options->segments, "show the segments of each object")
      .exclude("--segments", "--server")
      .flag("--crc", options->crc,
            "show the CRC-32/BZIP2 of each object, combined from those of\n"
            "its chunks; takes a look at every chunk");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return stat(*options); });
}

}  // namespace verbena::store_cli
