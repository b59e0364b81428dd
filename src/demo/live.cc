// SPDX-License-Identifier: Apache-2.0
#include "demo/live.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "demo/processes.h"
#include "link/receive_filter.h"

namespace verbena::demo {
namespace {

// Several times what the compared part takes when nothing is sent twice.
constexpr uint64_t kMostFrames = 10'000;

void be_target(const LiveOptions& options, Line& line) {
  End end(options.end, line);
  end.join();
  for (const Operation& operation : operations()) verify_as_target(end, operation, options.seed);
  if (options.burst.count() > 0) {
    prepare_bursts_as_target(end);
    for (const Operation& operation : operations()) burst_as_target(end, operation);
  }
  line.meet();
}

// What leaves and what arrives goes to a file for as long as this lives.
class Recording {
 public:
  Recording(device::Engine& engine, const std::string& path)
      : engine_(engine),
        path_(path),
        capture_(link::Capture::open(path, engine.host().port(), kMostFrames)) {
    if (!capture_) complain();
    engine_.set_taps(capture_.get(), capture_.get());
  }
  ~Recording() { engine_.set_taps(nullptr, nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Ends it; gives the number of frames.
  [[nodiscard]] uint64_t stop() {
    engine_.set_taps(nullptr, nullptr);
    if (!capture_->flush()) complain();
    return capture_->frames();
  }

 private:
  [[noreturn]] void complain() const {
    throw Problem("cannot write the capture " + path_ + ": " + std::strerror(errno) +
                  "; name another with --pcap");
  }

  device::Engine& engine_;
  std::string path_;
  std::unique_ptr<link::Capture> capture_;
};

void be_initiator(const LiveOptions& options, Line& line, LiveResult& result) {
  End end(options.end, line);
  result.port = end.device().engine().host().port();
  result.notice = end.device().notice();
  Recording recording(end.device().engine(), options.pcap);
  end.join();
  for (const Operation& operation : operations()) {
    result.rows.push_back({&operation, verify_as_initiator(end, operation, options.seed), Rate{}});
  }
  result.frames = recording.stop();
  if (options.burst.count() > 0) {
    prepare_bursts_as_initiator(end);
    for (LiveRow& row : result.rows) {
      row.rate = burst_as_initiator(end, *row.operation, options.burst);
    }
  }
  line.meet();
}

}  // namespace

bool LiveResult::good() const {
  return problem.empty() && rows.size() == operations().size() &&
         std::ranges::all_of(rows, [](const LiveRow& row) { return row.verdict.wrong == 0; });
}

LiveResult run_live(const LiveOptions& options) {
  LiveResult result;
  result.problem = run_processes([&](Line& line) { be_target(options, line); },
                                 [&](Line& line) { be_initiator(options, line, result); });
  return result;
}

}  // namespace verbena::demo
