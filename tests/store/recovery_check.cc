// SPDX-License-Identifier: Apache-2.0
#include "recovery_check.h"

#include "base/check.h"
#include "compare.h"

namespace verbena::store::trial {
namespace {

constexpr Depth kNoDeeper{
    .destroy_one_in = 0, .resume_one_in = 0, .nested_one_in = 0, .scrub_one_in = 2};
constexpr Effort kNestedEffort{
    .singles = 2, .chunk_sets = 8, .line_sets = 2, .samples = 2, .torn = 1};
constexpr int kResumedOperations = 6;

}  // namespace

RecoveryCheck::RecoveryCheck(MediumShape shape, Options options, const std::vector<Moment>& moments,
                             uint64_t seed)
    : options_(std::move(options)),
      moments_(moments),
      random_(seed),
      medium_(shape, seed),
      outer_(shape, seed) {}

Result<std::unique_ptr<Store>> RecoveryCheck::open(RecordingMedium& medium) {
  return Store::open(medium.open_backend(), options_);
}

namespace {

// A change that needs chunks of an object of few bytes moves these to one first, in a transaction
// of its own. After a power cut between the two the bytes are the same, in a chunk: in how many of
// the objects it is so, if that is all the difference.
std::optional<uint64_t> moved_to_chunks(const Picture& before, const Picture& now) {
  if (before.size() != now.size()) return {};
  uint64_t count = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    Seen seen = now[i];
    if (seen.size <= kMaxContentBytes && seen.chunks == 1 && before[i].chunks == 0) {
      seen.chunks = 0;
      ++count;
    }
    if (seen != before[i]) return {};
  }
  return count;
}

}  // namespace

std::optional<size_t> RecoveryCheck::match(const Store& store, Allowed allowed,
                                           std::string& violation) const {
  const auto picture = picture_of(store);
  if (!picture.has_value()) {
    violation = "recovered, but " + picture.error();
    return {};
  }
  between_ = false;
  std::string space;
  for (size_t i = allowed.last + 1; i-- > std::max<size_t>(allowed.first, 1);) {
    if (moments_[i].picture != *picture) continue;
    space = compare_space(store, moments_[i].model);
    if (space.empty()) return i;
  }
  if (!space.empty()) {
    violation = "recovered, but " + space;
    return {};
  }
  for (size_t i = allowed.last + 1; i-- > std::max<size_t>(allowed.first, 1);) {
    const auto moved = moved_to_chunks(moments_[i].picture, *picture);
    if (!moved || store.space().used != moments_[i].model.used() + *moved) continue;
    between_ = true;
    return i;
  }
  violation = "recovered to none of the moments " + std::to_string(allowed.first) + " to " +
              std::to_string(allowed.last);
  for (const size_t i : {allowed.first, allowed.last}) {
    violation += "; of " + std::to_string(i) + ": " + difference(moments_[i].picture, *picture);
  }
  for (size_t i = 1; i < moments_.size(); ++i) {
    if (moments_[i].picture == *picture) violation += "; it is that of " + std::to_string(i);
  }
  return {};
}

std::optional<size_t> RecoveryCheck::check(const Image& image, Allowed allowed,
                                           std::string& violation) {
  medium_.restore(image, false);
  const auto opened = open(medium_);
  if (!opened.has_value()) {
    if (allowed.first == 0) return 0;
    violation = std::string("not recovered: ") + store::name_of(opened.error().code) + ": " +
                opened.error().what;
    return {};
  }
  return match(**opened, allowed, violation);
}

std::string RecoveryCheck::look(const Image& image, Allowed allowed, const Depth& depth) {
  ++counts_.images;
  std::string violation;
  const std::optional<size_t> moment = check(image, allowed, violation);
  if (!moment.has_value() || between_) return violation;
  const auto chosen = [this](uint32_t one_in) { return one_in != 0 && random_.below(one_in) == 0; };
  if (*moment != 0 && (allowed.closed || chosen(depth.scrub_one_in))) {
    violation = scrub(image, allowed);
    if (violation.empty()) violation = read_on_demand(image, *moment);
    if (!violation.empty()) return violation;
  }
  if (chosen(depth.destroy_one_in)) {
    for (const Copy copy : kCopies) {
      Image spoilt = image;
      if (!destroy(spoilt, medium_.shape(), copy, random_)) continue;
      ++counts_.destroyed;
      if (!check(spoilt, allowed, violation).has_value()) {
        return violation + "; with " + name_of(copy) + " destroyed";
      }
    }
  }
  if (*moment != 0 && chosen(depth.resume_one_in)) {
    violation = resume(image, *moment);
    if (!violation.empty()) return violation;
  }
  if (chosen(depth.nested_one_in)) return nest(image, allowed);
  return {};
}

// A crash is no damage, neither before the store is recovered nor afterwards.
std::string RecoveryCheck::scrub(const Image& image, Allowed allowed) {
  ++counts_.scrubbed;
  medium_.restore(image, false);
  std::string violation = scrub_opened(true, allowed);
  return violation.empty() ? scrub_opened(false, allowed) : violation;
}

// Whoever reads objects one by one finds what recovery does.
std::string RecoveryCheck::read_on_demand(const Image& image, size_t moment) {
  medium_.restore(image, false);
  Options options = options_;
  options.read_only = options.on_demand = true;
  const auto store = Store::open(medium_.open_backend(), options);
  if (!store.has_value()) return "on demand, it is not opened: " + store.error().what;
  const auto picture = picture_of(**store);
  if (!picture.has_value()) return "on demand, " + picture.error();
  if (*picture == moments_[moment].picture) return {};
  return "on demand, " + difference(moments_[moment].picture, *picture);
}

std::string RecoveryCheck::scrub_opened(bool read_only, Allowed allowed) {
  const std::string how = read_only ? "before it is recovered, " : "recovered, ";
  Options options = options_;
  options.read_only = read_only;
  OpenReport report;
  const auto store = Store::open(medium_.open_backend(), options, &report);
  if (!store.has_value()) return how + "it is not opened: " + store.error().what;
  if (!report.damage.empty()) {
    return how + "opening finds damage: " + report.damage.front().field + " at chunk " +
           std::to_string(report.damage.front().chunk);
  }
  if (allowed.closed && !report.clean) return how + "nobody knows that it was closed";
  const auto found = (*store)->scrub();
  if (!found.has_value()) return how + "scrub says " + found.error().what;
  if (found->damaged == 0) return {};
  return how + "scrub finds damage: " + found->damage.front().field + " at chunk " +
         std::to_string(found->damage.front().chunk);
}

// Works with the store that was recovered, kills it after a flush, and opens it again.
std::string RecoveryCheck::resume(const Image& image, size_t moment) {
  ++counts_.resumed;
  medium_.restore(image, false);
  auto store = open(medium_);
  VERBENA_CHECK(store.has_value());
  Model model = moments_[moment].model;
  const Profile profile{.objects = 6,
                        .object_bytes = 40'000,
                        .write_bytes = 20'000,
                        .sparse_bytes = 0,
                        .nonsense_per_mille = 0};
  std::string done = "recovered at moment " + std::to_string(moment);
  for (int i = 0; i < kResumedOperations; ++i) {
    const Operation operation = draw(random_, model, profile);
    done += ", then " + describe(operation);
    Model next = model;
    const Refusal expected = apply(next, operation);
    std::string why;
    const Refusal actual = apply(**store, operation, &why);
    if (actual == Code::kFull) continue;
    if (actual != expected) {
      std::string what = done;
      what.append(" was ").append(describe(actual)).append(" (").append(why);
      return what.append("), not ").append(describe(expected));
    }
    if (!expected.has_value()) model = std::move(next);
  }
  std::string violation = compare(**store, model, random_);
  if (!violation.empty()) return done + ": " + violation;
  const auto flushed = (*store)->flush();
  if (!flushed.has_value()) return done + ", then flush says " + flushed.error().what;
  const auto scrubbed = (*store)->scrub();
  if (!scrubbed.has_value()) return done + ", then scrub says " + scrubbed.error().what;
  if (scrubbed->damaged != 0) {
    return done + ", then scrub finds damage: " + scrubbed->damage.front().field;
  }
  medium_.kill();
  *store = nullptr;
  const auto again = open(medium_);
  if (!again.has_value()) {
    return done + ", flushed, killed, and not opened: " + again.error().what;
  }
  violation = compare(**again, model, random_);
  return violation.empty() ? violation : done + ", flushed, killed and opened: " + violation;
}

// The power fails again while the store is opened, and right after that.
std::string RecoveryCheck::nest(const Image& image, Allowed allowed) {
  ++counts_.nested;
  outer_.restore(image, true);
  outer_.mark(static_cast<uint32_t>(allowed.first), static_cast<uint32_t>(allowed.last));
  auto store = open(outer_);
  if (!store.has_value()) return {};  // nothing was acknowledged yet
  std::string violation;
  const std::optional<size_t> moment = match(**store, allowed, violation);
  if (!moment.has_value()) return violation + "; at the second look";
  if (between_) return {};
  // Whoever has seen it must see it again.
  outer_.mark(static_cast<uint32_t>(*moment), static_cast<uint32_t>(*moment));
  outer_.kill();
  *store = nullptr;
  const Recording recording = outer_.recording();
  violation = explore(recording, kNestedEffort, kNoDeeper);
  return violation.empty() ? violation : violation + "; the power failed while it was opened";
}

std::string RecoveryCheck::explore(const Recording& recording, const Effort& effort,
                                   const Depth& depth) {
  Walk walk(recording);
  std::string violation;
  size_t cut = 0;
  while (walk.next()) {
    ++counts_.moments;
    const Allowed allowed = allowed_by(walk.mark());
    const bool good =
        for_each_image(walk, effort, random_, [&](Image&& image, const std::string& how) {
          violation = look(image, allowed, depth);
          if (!violation.empty()) violation += "; image: " + how;
          return violation.empty();
        });
    if (!good) {
      return violation + "; power cut " + std::to_string(cut) + " with " +
             std::to_string(walk.dirty().size()) + " dirty lines";
    }
    ++cut;
  }
  return {};
}

}  // namespace verbena::store::trial
