// SPDX-License-Identifier: Apache-2.0
#include "store_cli/complete.h"

#include "store_cli/object_data.h"
#include "store_cli/opening.h"

namespace verbena::store_cli {
namespace {

// Whoever presses a key does not wait long, nor read a long list.
constexpr double kTimeoutSeconds = 1;
constexpr double kWaitSeconds = 0;
constexpr size_t kMaxCandidates = 200;
constexpr size_t kMaxObjects = 20'000;  // looked at

[[nodiscard]] StoreChoice choice_of(const cli::Completion& completion) {
  StoreChoice choice;
  for (const auto& [option, value] : completion.values) {
    if (option == "--data") choice.folders.push_back(value);
    if (option == "--server") choice.server.server = value;
    if (option == "--secret-file") choice.server.secret_file = value;
    if (option == "--device") choice.server.device = value;
    if (option == "--fabric") choice.server.fabric = value;
  }
  choice.server.timeout_seconds = kTimeoutSeconds;
  choice.wait_seconds = kWaitSeconds;
  return choice;
}

// Names that begin so, each up to the next '/'. What goes wrong is the command's to tell.
void offer_objects(cli::Completion& completion) {
  Report report("__complete", Speech{.json = false, .quiet = true});
  const StoreChoice choice = choice_of(completion);
  const Place place = place_of(choice);
  if (place != Place::kDirectory && place != Place::kServer) return;
  auto opened = open_objects(choice, Need::kRead, report);
  if (!opened) return;
  size_t seen = 0;
  const size_t typed = completion.current.size();
  static_cast<void>(
      each_object(opened->objects(), completion.current, [&](const store::ObjectInfo& object) {
        if (object.name.empty()) return ++seen < kMaxObjects;
        const size_t slash = object.name.find('/', typed);
        std::string name = object.name.substr(0, slash == std::string::npos ? slash : slash + 1);
        auto& candidates = completion.candidates;
        // In order of their names: the same ones follow each other.
        if (candidates.empty() || candidates.back().word != name) {
          candidates.push_back({std::move(name), {}});
        }
        return candidates.size() < kMaxCandidates && ++seen < kMaxObjects;
      }));
}

}  // namespace

int complete(cli::Command& command, std::span<const std::string> words) {
  cli::Completion completion = command.complete(words.first(words.size() - 1), words.back());
  if (completion.kind == cli::Completion::Kind::kObjects) offer_objects(completion);
  return cli::print_completion(completion);
}

}  // namespace verbena::store_cli
