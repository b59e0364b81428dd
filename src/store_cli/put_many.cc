// SPDX-License-Identifier: Apache-2.0
#include "store_cli/put_many.h"

#include <numeric>

#include <fmt/format.h>

#include "store_cli/interrupts.h"
#include "store_cli/line_input.h"
#include "store_cli/put_session.h"
#include "store_cli/sizes.h"
#include "store_cli/tree.h"

namespace verbena::store_cli {
namespace {

[[nodiscard]] int finish(PutSession& session, Report& report) {
  session.close();
  if (const int signal = interrupted(); signal != 0 && !report.failed()) {
    report.interrupted(signal, "interrupted");
  }
  report.fields["objects_written"] = session.objects();
  report.fields["bytes_written"] = session.bytes();
  report.fields["created_store"] = session.created();
  report.note(fmt::format("stored {} object{}, {}", session.objects(),
                          session.objects() == 1 ? "" : "s", human_size(session.bytes())));
  return report.finish();
}

}  // namespace

int put_tree(const PutManyOptions& options) {
  Report report("put", options.speech);
  if (!check_choice(options.store, report)) return report.finish();
  const auto tree = list_tree(options.folder);
  if (!tree) {
    report.error(kNotDone, "io", tree.error());
    return report.finish();
  }
  tell_problems(*tree, report);
  const uint64_t bytes =
      std::accumulate(tree->files.begin(), tree->files.end(), uint64_t{0},
                      [](uint64_t sum, const TreeFile& file) { return sum + file.size; });
  ProgressBar bar(report.shows_progress(), "put", bytes);
  PutSession session(options.store, bar, report);
  const std::string prefix = as_prefix(options.prefix);
  // A store is made for a directory without files, too.
  if (!session.open()) return report.finish();
  for (const TreeFile& file : tree->files) {
    if (!session.put(file.path, prefix + file.relative, options.only_new)) break;
  }
  return finish(session, report);
}

int put_batch(const PutManyOptions& options) {
  Report report("put", options.speech);
  if (!check_choice(options.store, report)) return report.finish();
  ProgressBar bar(report.shows_progress(), "put", 0);
  PutSession session(options.store, bar, report);
  LineInput lines;
  for (uint64_t number = 1;; ++number) {
    // Who waits for lines does not keep others from the store.
    if (lines.would_wait()) session.pause();
    const auto line = lines.next();
    if (!line) {
      report.error(kNotDone, "io", fmt::format("line {}: {}", number, line.error()));
      break;
    }
    if (!line->has_value()) break;
    const size_t tab = (*line)->find('\t');
    if (tab == std::string::npos) {
      bar.clear();
      report.error(kUsage, "invalid",
                   fmt::format("line {}: expected FILE, a tab, and OBJECT", number));
      continue;
    }
    if (!session.put((*line)->substr(0, tab), (*line)->substr(tab + 1), options.only_new)) break;
  }
  return finish(session, report);
}

}  // namespace verbena::store_cli
