// SPDX-License-Identifier: Apache-2.0
// Opens a store from an image and looks whether it is one that the image's history allows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crash_images.h"
#include "model.h"
#include "operation.h"
#include "picture.h"
#include "recording_backend.h"
#include "store/store.h"

namespace verbena::store::trial {

// What the store was after one operation. The first of a history is that there is none.
struct Moment {
  Model model;
  Picture picture;
};

// A power cut may leave any of the moments [first, last]: what was acknowledged last, and what was
// begun last.
struct Allowed {
  size_t first = 0;
  size_t last = 0;
  bool closed = false;  // in order, and nothing since: that can be seen
};

struct CheckCounts {
  uint64_t moments = 0;
  uint64_t images = 0;
  uint64_t destroyed = 0;  // of them, with a copy destroyed
  uint64_t resumed = 0;    // of them, worked with afterwards
  uint64_t nested = 0;     // of them, with power cuts while they were opened
  uint64_t scrubbed = 0;   // of them, before and after they were recovered

  void add(const CheckCounts& other) {
    moments += other.moments;
    images += other.images;
    destroyed += other.destroyed;
    resumed += other.resumed;
    nested += other.nested;
    scrubbed += other.scrubbed;
  }
};

// One image in so many has each of these done to it, beside being opened.
struct Depth {
  uint32_t destroy_one_in = 6;
  uint32_t resume_one_in = 12;
  uint32_t nested_one_in = 40;
  uint32_t scrub_one_in = 5;
};

class RecoveryCheck {
 public:
  RecoveryCheck(MediumShape shape, Options options, const std::vector<Moment>& moments,
                uint64_t seed);

  // Power cuts at each moment of a recording, whose marks are the moments allowed. What was wrong;
  // or nothing.
  [[nodiscard]] std::string explore(const Recording& recording, const Effort& effort,
                                    const Depth& depth);
  // Which moment the image is recovered to; or what is wrong, in `violation`.
  [[nodiscard]] std::optional<size_t> check(const Image& image, Allowed allowed,
                                            std::string& violation);
  [[nodiscard]] const CheckCounts& counts() const { return counts_; }

  static Allowed allowed_by(const Event& mark) {
    return {.first = mark.first, .last = mark.count, .closed = mark.closed};
  }

 private:
  [[nodiscard]] std::string look(const Image& image, Allowed allowed, const Depth& depth);
  [[nodiscard]] std::optional<size_t> match(const Store& store, Allowed allowed,
                                            std::string& violation) const;
  [[nodiscard]] std::string resume(const Image& image, size_t moment);
  [[nodiscard]] std::string nest(const Image& image, Allowed allowed);
  [[nodiscard]] std::string scrub(const Image& image, Allowed allowed);
  [[nodiscard]] std::string read_on_demand(const Image& image, size_t moment);
  [[nodiscard]] std::string scrub_opened(bool read_only, Allowed allowed);
  [[nodiscard]] Result<std::unique_ptr<Store>> open(RecordingMedium& medium);

  const Options options_;
  const std::vector<Moment>& moments_;
  SeededRandom random_;
  RecordingMedium medium_;  // for checks
  RecordingMedium outer_;   // for those whose opening is cut
  CheckCounts counts_;
  mutable bool between_ = false;  // what was matched last is between two moments, as it may be
};

}  // namespace verbena::store::trial
