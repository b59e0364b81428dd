// SPDX-License-Identifier: Apache-2.0
// `verbena verify`: whether single objects can be read as they were written.
#include <algorithm>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "store/crc_parts.h"
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

using nlohmann::ordered_json;

constexpr const char* kAboutVerify =
    R"text(Reads the objects as get does, through the page cache; scrub verifies a whole store from the medium.
Each damaged chunk is listed; the exit status is then 4.

  verbena verify --data /srv/store photos/1.jpg 7:42
)text";

struct VerifyOptions {
  StoreChoice store;
  Speech speech;
  std::vector<std::string> objects;
};

class Verify {
 public:
  Verify(const store::Objects& store, const store::ObjectInfo& object, std::string shown,
         Report& report)
      : store_(store), object_(object), shown_(std::move(shown)), report_(report) {}

  // False: it could not be read to its end.
  [[nodiscard]] bool run() {
    const size_t most = store_.piece_bytes();
    const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(most);
    ProgressBar bar(report_.shows_progress(), "verify", object_.size);
    for (uint64_t at = 0; at < object_.size;) {
      const auto data = next_data(store_, object_, at, object_.size);
      if (!data) return wrong(data.error(), bar);
      crc_ = store::crc_zeros_after(crc_, data->begin - at);
      for (at = data->begin; at < data->end;) {
        const auto bytes =
            static_cast<size_t>(std::min<uint64_t>(data->end - at, most - at % store::kDataBytes));
        if (!read(at, {buffer.get(), bytes}, bar)) return false;
        at += bytes;
        bar.update(at);
        if (const int signal = interrupted(); signal != 0) {
          bar.clear();
          report_.interrupted(signal, "interrupted");
          return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] uint64_t damaged() const { return damaged_; }
  [[nodiscard]] uint32_t crc() const { return crc_; }

 private:
  bool wrong(const store::Error& error, ProgressBar& bar) {
    bar.clear();
    report_.error(error, shown_);
    return error.code == store::Code::kDamaged;
  }
  [[nodiscard]] bool read(uint64_t at, std::span<uint8_t> bytes, ProgressBar& bar) {
    uint32_t crc = 0;
    const auto got = store_.read(object_.id, at, bytes, &crc);
    if (got) {
      crc_ = store::crc_join(crc_, crc, bytes.size());
      return true;
    }
    if (got.error().code != store::Code::kDamaged) return wrong(got.error(), bar);
    // Which chunks of it.
    while (!bytes.empty()) {
      const size_t part =
          std::min<size_t>(bytes.size(), store::kDataBytes - at % store::kDataBytes);
      const auto one = store_.read(object_.id, at, bytes.first(part));
      if (!one) {
        ++damaged_;
        if (!wrong(one.error(), bar)) return false;
      }
      at += part;
      bytes = bytes.subspan(part);
    }
    return true;
  }

  const store::Objects& store_;
  const store::ObjectInfo& object_;
  const std::string shown_;
  Report& report_;
  uint64_t damaged_ = 0;
  uint32_t crc_ = store::crc_of_zeros(0);
};

int verify(const VerifyOptions& options) {
  catch_interrupts();
  Report report("verify", options.speech);
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return report.finish();
  const store::Objects& store = opened->objects();
  auto shown = ordered_json::array();
  for (const std::string& text : options.objects) {
    if (report.unreachable()) break;
    const auto object = find_object(store, text, report);
    if (!object) continue;
    Verify work(store, *object, text, report);
    if (!work.run()) {
      if (interrupted() != 0) break;
      continue;
    }
    const bool well = work.damaged() == 0;
    if (report.json()) {
      shown.push_back(json_of(*object));
      shown.back()["damaged_chunks"] = work.damaged();
      shown.back()["crc32"] =
          well ? ordered_json(fmt::format("{:08x}", work.crc())) : ordered_json(nullptr);
    } else if (!well) {
      print("{}: {} of {} chunks damaged\n", printable(text), work.damaged(), object->chunks);
    } else if (!report.speech().quiet) {
      print("{}: no damage in {}, CRC-32 {:08x}\n", printable(text), report.size(object->size),
            work.crc());
    }
  }
  report.fields["objects"] = std::move(shown);
  return report.finish();
}

}  // namespace

cli::Command verify_command() {
  const auto options = std::make_shared<VerifyOptions>();
  cli::Command command = describe("verify", kAboutVerify);
  command.words("OBJECT", "OBJECT...", options->objects, "names or ids (high:low)");
  add_store_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kSizes);
  add_progress_option(command, options->speech);
  return command.action([options] { return verify(*options); });
}

}  // namespace verbena::store_cli
