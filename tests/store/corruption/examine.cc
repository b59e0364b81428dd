// SPDX-License-Identifier: Apache-2.0
#include "examine.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "compare.h"
#include "expectation.h"
#include "neighbours.h"
#include "store/directory.h"

namespace verbena::store::trial {
namespace {

class Examination {
 public:
  Examination(const Sample& sample, const DamagedStore& damaged, const std::string& folder,
              RandomSource& random, Counts& counts)
      : sample_(sample),
        image_(damaged.image),
        folder_(folder),
        random_(random),
        counts_(counts),
        expected_(expect(sample, damaged.image)) {}

  std::string run() {
    write_files(image_, folder_);
    counts_.lost += expected_.truth.bad_chunks().size();
    counts_.copies += expected_.bad_copies.size();
    std::string what = expected_.opens ? read_only() : refused(true);
    if (what.empty()) what = untouched();
    if (what.empty() && (!expected_.opens || random_.below(16) == 0)) what = salvaged();
    const bool writable = expected_.opens && expected_.writable;
    if (what.empty()) what = writable ? writing() : refused(false);
    if (what.empty() && !writable) what = untouched();
    ++(expected_.opens ? counts_.opened : counts_.refused);
    return what;
  }

 private:
  [[nodiscard]] Result<DirectoryStore> open(bool read_only, OpenReport& report) const {
    DirectoryOptions options;
    options.store.read_only = read_only;
    options.store.now_ns = [] { return uint64_t{1'800'000'000'000'000'000}; };
    options.capacity_bytes = image_.bytes.size() + (size_t{1} << 20);
    return DirectoryStore::open({folder_}, options, &report);
  }

  // Looking changes nothing.
  [[nodiscard]] std::string untouched() const {
    const FilesImage now = read_files(folder_);
    const bool misses = std::ranges::find(image_.files, FilesImage::kMissing) != image_.files.end();
    return misses || now.bytes == image_.bytes ? "" : "the files are not what they were";
  }

  std::string refused(bool read_only) {
    OpenReport report;
    auto store = open(read_only, report);
    const char* const how = read_only ? "for reading" : "for writing";
    if (store) return fmt::format("it can be opened {}", how);
    if (store.error().code != Code::kDamaged || store.error().what.empty()) {
      return fmt::format("opening {} fails, but not for damage: {}", how, store.error().what);
    }
    if (expected_.opens) return {};
    const auto scrubbed = scrub({folder_});
    return scrubbed ? "scrub finds it good" : "";
  }

  [[nodiscard]] std::string check_report(const OpenReport& report) const {
    std::set<uint64_t> told;
    for (const Damage& damage : report.damage) {
      told.insert(damage.chunk);
      if (damage.object != ObjectId{} || damage.field.empty() || damage.expected.empty()) {
        return "opening tells of a damage, but not which";
      }
    }
    // Without all of the names the rest of them is not looked at.
    const bool as_expected = expected_.whole ? told == expected_.bad_copies : !told.empty();
    if (!as_expected || told.size() != report.damage.size()) {
      return fmt::format("opening tells of {} damaged copies, not of {}", report.damage.size(),
                         expected_.bad_copies.size());
    }
    if (report.incomplete.size() != expected_.incomplete.size()) {
      return "opening is wrong about what is incomplete";
    }
    if (report.dropped_transactions != 0) return "opening dropped a transaction";
    return report.clean == expected_.clean ? "" : "opening is wrong about how it was closed";
  }

  std::string read_only() {
    OpenReport report;
    auto store = open(true, report);
    if (!store) return "opening for reading: " + store.error().what;
    std::string what = check_report(report);
    if (what.empty()) what = check_contents(store->store(), expected_.truth, random_);
    if (what.empty()) what = check_all_fields(store->store());
    if (what.empty()) what = check_scrubs(store->store().scrub());
    if (what.empty()) what = check_scrubs(scrub({folder_}));
    return what;
  }

  [[nodiscard]] std::string check_scrubs(const Result<ScrubReport>& report) const {
    if (!report) return "scrub: " + report.error().what;
    if (report->incomplete.size() != expected_.incomplete.size()) {
      return "scrub is wrong about what is incomplete";
    }
    return check_scrub(*report, expected_.truth, expected_.bad_copies);
  }

  [[nodiscard]] std::string check_all_fields(const Store& store) const {
    for (const uint64_t chunk : expected_.truth.bad_chunks()) {
      for (const Use& use : sample_.data.at(chunk)) {
        std::vector<uint8_t> bytes(1);
        const auto got = store.read(use.object, use.index * kDataBytes, bytes);
        if (got) return "a byte of a damaged chunk can be read";
        if (chunk >= image_.chunks()) continue;  // not there: nothing to compare with
        const std::string what =
            check_fields(got.error().damage, use, image_.chunk(chunk), sample_.tag);
        if (!what.empty()) return what;
      }
    }
    return {};
  }

  std::string writing() {
    Truth truth = expected_.truth;
    {
      OpenReport report;
      auto store = open(false, report);
      if (!store) return "opening for writing: " + store.error().what;
      std::string what = check_report(report);
      if (what.empty()) what = check_contents(store->store(), truth, random_);
      if (what.empty() && !truth.lost.empty()) {
        what = write_beside(store->store(), truth, random_);
        ++counts_.healed;
      }
      if (what.empty()) what = check_after(*store, truth);
      if (!what.empty()) return "opened for writing: " + what;
      if (const auto closed = store->store().close(); !closed) return closed.error().what;
    }
    OpenReport report;
    auto again = open(true, report);
    if (!again) return "opening again: " + again.error().what;
    // Copies of the log are whole again.
    if (!report.damage.empty() || !report.incomplete.empty() || !report.clean)
      return "the log is still damaged afterwards";
    const std::string what = check_after(*again, truth);
    return what.empty() ? what : "opened again: " + what;
  }

  std::string check_after(DirectoryStore& store, const Truth& truth) {
    std::string what = check_contents(store.store(), truth, random_);
    if (what.empty()) what = compare_space(store.store(), truth.model);
    if (!what.empty()) return what;
    const auto report = store.store().scrub();
    return report ? check_scrub(*report, truth, {}) : "scrub: " + report.error().what;
  }

  std::string salvaged() {
    const std::string to = folder_ + ".salvaged";
    std::filesystem::remove_all(to);
    const auto report = salvage({folder_}, {to});
    ++counts_.salvaged;
    std::string what;
    if (!report) {
      what = report.error().what;
    } else if (report->by_log != expected_.opens) {
      what = "it does not go by the log";
    } else {
      DirectoryOptions options;
      options.store.read_only = true;
      auto store = DirectoryStore::open({to}, options);
      what = !store           ? store.error().what
             : report->by_log ? check_by_log(store->store(), *report)
                              : check_from_chunks(store->store());
    }
    std::filesystem::remove_all(to);
    return what.empty() ? what : "salvaged: " + what;
  }

  // Zeros where something is lost, all else as it was.
  std::string check_by_log(const Store& store, const SalvageReport& report) {
    Truth truth = expected_.truth;
    for (const auto& [where, chunk] : truth.lost) {
      const uint64_t begin = where.second * kDataBytes;
      const uint64_t size = truth.model.find(where.first)->size;
      const std::vector<uint8_t> zeros(std::min<uint64_t>(kDataBytes, size - begin));
      static_cast<void>(truth.model.write(where.first, begin, zeros));
    }
    if (report.bad_chunks != truth.lost.size()) return "it counts the lost chunks wrong";
    for (const auto& [id, object] : truth.model.objects()) {
      const auto info = store.stat(id);
      if (!info || info->name != object.name || info->size != object.size) {
        return "object " + text(id) + " has another name or size";
      }
      if (const std::string what = compare_object(store, truth.model, id); !what.empty())
        return what;
    }
    return {};
  }

  // What was written for the object that has it, and is whole, is there.
  std::string check_from_chunks(const Store& store) {
    for (const auto& [chunk, uses] : sample_.data) {
      if (!still_there(chunk)) continue;
      for (const Use& use : uses) {
        if (use.birth.owner != use.number || use.birth.index != use.index) continue;
        const std::vector<uint8_t> expected =
            sample_.model.read(use.object, use.index * kDataBytes, kDataBytes);
        bool found = false;
        for (const ObjectId id : {use.object, ObjectId{0, use.number}}) {
          // An object that was longer than what was written into it is not any more.
          std::vector<uint8_t> bytes(expected.size());
          const auto got = store.read(id, use.index * kDataBytes, bytes);
          found = found || (got && *got > 0 && bytes == expected);
        }
        if (!found) {
          return fmt::format("chunk {} of object {} is not there", use.index, text(use.object));
        }
      }
    }
    return {};
  }
  [[nodiscard]] bool still_there(uint64_t chunk) const {
    const auto bytes = sample_.now.chunk(chunk);
    for (uint64_t at = 0; at + kChunkBytes <= image_.bytes.size(); at += kChunkBytes) {
      if (std::ranges::equal(bytes, std::span(image_.bytes).subspan(at, kChunkBytes))) return true;
    }
    return false;
  }

  const Sample& sample_;
  const FilesImage& image_;
  const std::string& folder_;
  RandomSource& random_;
  Counts& counts_;
  const Expectation expected_;
};

}  // namespace

std::string examine_store(const Sample& sample, const DamagedStore& damaged,
                          const std::string& folder, RandomSource& random, Counts& counts) {
  return Examination(sample, damaged, folder, random, counts).run();
}

}  // namespace verbena::store::trial
