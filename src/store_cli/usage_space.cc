// SPDX-License-Identifier: Apache-2.0
// `verbena du` and `verbena df`: how much space objects take, and how much there is.
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/folder_names.h"
#include "store/folder_shape.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"
#include "store_cli/object_name.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"

namespace verbena::store_cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAboutDu =
    R"text(SIZE is the sum of the sizes of the objects; STORED is what their chunks hold: less where objects
have holes. Data that clones share counts for each of them.

  verbena du --data /srv/store                 by the part of the names up to the first /
  verbena du --data /srv/store photos/         below this prefix
)text";

constexpr const char* kAboutDf =
    R"text(Sizes are of data: what objects can hold. The files of a store grow as needed, so that the free
space includes that of the disk.

  verbena df --data /srv/store
  verbena df --data /srv/store --json
)text";

struct UsageOptions {
  StoreChoice store;
  Speech speech;
  std::string prefix;
};

struct Sum {
  uint64_t objects = 0;
  uint64_t size = 0;
  uint64_t stored = 0;
  void add(const store::ObjectInfo& object) {
    ++objects;
    size += object.size;
    stored += object.chunks * store::kDataBytes + object.content;
  }
};

constexpr const char* kSumRow = "{:>10}  {:>10}  {:>10}  {}\n";

[[nodiscard]] ordered_json sum_json(const std::string& name, const Sum& sum) {
  return {{"name", name}, {"objects", sum.objects}, {"size", sum.size}, {"stored", sum.stored}};
}

int du(const UsageOptions& options) {
  catch_interrupts();
  Report report("du", options.speech);
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  std::map<std::string, Sum> parts;
  Sum all;
  const auto add = [&](const store::ObjectInfo& object) {
    const size_t slash = object.name.find('/', options.prefix.size());
    const std::string part =
        slash == std::string::npos ? object.name : object.name.substr(0, slash + 1);
    parts[part].add(object);
    all.add(object);
    return interrupted() == 0;
  };
  const auto listed = each_object(opened->objects(), options.prefix, add);
  if (!listed) report.error(listed.error(), options.prefix);
  if (const int signal = interrupted(); signal != 0) report.interrupted(signal, "interrupted");
  auto list = ordered_json::array();
  if (!report.json() && !report.speech().quiet) {
    print(kSumRow, "SIZE", "STORED", "OBJECTS", "NAME");
  }
  const auto line = [&](const std::string& name, const Sum& sum) {
    print(kSumRow, report.size(sum.size), report.size(sum.stored), sum.objects, name);
  };
  for (const auto& [name, sum] : parts) {
    if (report.json()) {
      list.push_back(sum_json(name, sum));
    } else {
      line(name.empty() ? "(no name)" : printable(name), sum);
    }
  }
  if (!report.json()) line("total", all);
  report.fields["parts"] = std::move(list);
  report.fields["total"] = sum_json(options.prefix, all);
  return report.finish();
}

// Of the files of a store, in bytes.
[[nodiscard]] uint64_t bytes_of_files(const std::vector<std::string>& folders) {
  uint64_t bytes = 0;
  for (const std::string& folder : folders) {
    const auto names = store::names_in(folder);
    for (const std::string& name : names.value_or(std::vector<std::string>{})) {
      std::error_code error;
      const auto size = std::filesystem::file_size(std::filesystem::path(folder) / name, error);
      if (!error && store::is_block_file(name)) bytes += size;
    }
  }
  return bytes;
}

int df(const UsageOptions& options) {
  catch_interrupts();
  Report report("df", options.speech);
  auto opened = open_store(options.store, Need::kReadAll, report);
  if (!opened) return report.finish();
  const std::vector<std::string> folders = folders_of(options.store);
  const store::SpaceInfo space = opened->directory.store().space();
  const uint64_t size = space.capacity * store::kDataBytes;
  const uint64_t used = space.used * store::kDataBytes;
  const uint64_t free = space.free * store::kDataBytes;
  const uint64_t files = bytes_of_files(folders);
  report.fields["size"] = size;
  report.fields["used"] = used;
  report.fields["free"] = free;
  report.fields["pending"] = space.pending * store::kDataBytes;
  report.fields["files"] = files;
  if (!report.json()) {
    constexpr const char* kSpaceRow = "{:>10}  {:>10}  {:>10}  {:>4}  {:>10}  {}\n";
    if (!report.speech().quiet) print(kSpaceRow, "SIZE", "USED", "FREE", "USE%", "FILES", "STORE");
    const uint64_t percent =
        size == 0 ? 0 : (used / store::kDataBytes * 100 + space.capacity - 1) / space.capacity;
    print(kSpaceRow, report.size(size), report.size(used), report.size(free),
          fmt::format("{}%", percent), report.size(files),
          printable(fmt::format("{}", fmt::join(folders, ", "))));
  }
  return report.finish();
}

}  // namespace

cli::Command du_command() {
  const auto options = std::make_shared<UsageOptions>();
  cli::Command command = describe("du", kAboutDu);
  command.optional_word("PREFIX", options->prefix, "only objects with this prefix");
  add_store_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return du(*options); });
}

cli::Command df_command() {
  const auto options = std::make_shared<UsageOptions>();
  cli::Command command = describe("df", kAboutDf);
  add_folder_words(command, options->store);
  add_data_option(command, options->store);
  refuse_server(command, "when the server has ended");
  add_speech_options(command, options->speech, Shows::kSizes);
  return command.action([options] { return df(*options); });
}

}  // namespace verbena::store_cli
