// SPDX-License-Identifier: Apache-2.0
// A sender and a receiver in one seeded world: frames and replies travel in order, jobs end in any
// order, and the connection can break at any step. The receiver's folder and its incomplete files
// outlive the connection.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "transfer/receiving.h"
#include "transfer/sending.h"

namespace verbena::transfer {

using Bytes = std::vector<uint8_t>;

struct SimulatedFolder {
  std::map<std::string, Bytes> files;       // under their own names
  std::map<std::string, Bytes> incomplete;  // what there is of them
  std::map<std::string, bool> folders;
};

class SimulatedTransfer {
 public:
  SimulatedTransfer(uint64_t seed, SimulatedFolder& folder, const SendOptions& send,
                    const ReceiveLimits& limits)
      : random_(seed), folder_(folder), sending_(send, {}), receiving_(limits, {}) {
    const size_t bytes = receiving_.slot_bytes();
    for (uint16_t i = 0; i < limits.slots; ++i) {
      ours_.emplace_back(bytes);
      theirs_.emplace_back(bytes);
    }
    receiving_.start(0x1000, 7);
  }

  void add(const std::string& path, Bytes content) {
    const FileId id = sending_.add({.path = path, .size = content.size()});
    sources_[id] = std::move(content);
    names_[id] = path;
  }
  void no_more() { sending_.no_more(); }

  // One thing that can happen, chosen by the seed; false: nothing can.
  bool step() {
    take_actions();
    std::vector<std::function<void()>> choices;
    if (!frames_.empty()) choices.emplace_back([this] { deliver_frame(); });
    if (!replies_.empty()) choices.emplace_back([this] { deliver_reply(); });
    if (!fills_.empty()) choices.emplace_back([this] { run_one(fills_); });
    if (!jobs_.empty()) choices.emplace_back([this] { run_one(jobs_); });
    if (!sent_.empty()) choices.emplace_back([this] { run_one(sent_); });
    if (choices.empty()) return false;
    choices[random_.below(choices.size())]();
    return true;
  }
  void run() {
    for (int i = 0; i < 1'000'000 && step(); ++i) {}
  }
  void lose() {
    receiving_.on_lost();
    take_actions();
    while (!jobs_.empty()) run_one(jobs_);
    take_actions();
  }

  Sending& sending() { return sending_; }
  Receiving& receiving() { return receiving_; }
  std::map<std::string, std::pair<Verdict, std::string>> verdicts;
  bool all_sent = false;
  std::string failed;
  std::string cut_off;
  // A chance to spoil a frame before it is read.
  std::function<void(Bytes&)> spoil = [](Bytes&) {};

 private:
  void run_one(std::vector<std::function<void()>>& from) {
    const size_t at = random_.below(from.size());
    auto one = std::move(from[at]);
    from.erase(from.begin() + static_cast<ptrdiff_t>(at));
    one();
  }

  void take_actions() {
    bool more = true;
    while (more) {
      more = false;
      for (auto& action : sending_.take_actions()) {
        std::visit([this](auto& a) { carry_out(a); }, action);
        more = true;
      }
      for (auto& action : receiving_.take_actions()) {
        std::visit([this](auto& a) { carry_out(a); }, action);
        more = true;
      }
    }
  }

  // --- the sender's
  void carry_out(FillSmall& fill) {
    fills_.emplace_back([this, fill] {
      Filled filled;
      FrameWriter frame(ours_[fill.slot]);
      Bytes data;
      for (const FileId id : fill.files) {
        const Bytes& content = sources_[id];
        if (!frame.add(Small{.file = id,
                             .length = static_cast<uint32_t>(content.size()),
                             .crc = crc_of(content),
                             .path = bytes_of(names_[id])})) {
          filled.left.push_back(id);
        } else {
          data.insert(data.end(), content.begin(), content.end());
        }
      }
      std::ranges::copy(data, frame.data().begin());
      filled.length = frame.empty() ? 0 : frame.finish();
      sending_.on_filled(fill.slot, filled);
    });
  }
  void carry_out(FillChunk& fill) {
    fills_.emplace_back([this, fill] {
      const auto part = std::span(sources_[fill.file]).subspan(fill.offset, fill.length);
      Filled filled{.crc = crc_of(part)};
      if (fill.there == filled.crc) {
        filled.what = Filled::What::kThere;
      } else if (std::ranges::all_of(part, [](uint8_t b) { return b == 0; })) {
        filled.what = Filled::What::kHole;
      } else {
        FrameWriter frame(ours_[fill.slot]);
        if (!frame.add(Data{fill.file, fill.chunk, fill.length, filled.crc})) std::abort();
        std::ranges::copy(part, frame.data().begin());
        filled.length = frame.finish();
      }
      sending_.on_filled(fill.slot, filled);
    });
  }
  void carry_out(Post& post) {
    if (!post.bytes.empty()) std::ranges::copy(post.bytes, ours_[post.slot].begin());
    frames_.emplace_back(post.slot, post.length);
    sent_order_.push_back(post.slot);
  }
  void carry_out(FileEnded& ended) { verdicts[names_[ended.file]] = {ended.verdict, ended.text}; }
  void carry_out(AllSent& /*action*/) { all_sent = true; }
  void carry_out(SendFailed& action) { failed = action.why; }

  void deliver_frame() {
    const auto [slot, length] = frames_.front();
    frames_.pop_front();
    std::ranges::copy(std::span(ours_[slot]).first(length), theirs_[slot].begin());
    spoil(theirs_[slot]);
    sent_.emplace_back([this, slot] { sending_.on_sent(slot); });
    receiving_.on_frame(slot, theirs_[slot]);
  }
  void deliver_reply() {
    const Bytes reply = std::move(replies_.front());
    replies_.pop_front();
    sending_.on_reply(reply);
  }

  // --- the receiver's
  void carry_out(OpenFile& open) {
    jobs_.emplace_back([this, open] {
      paths_[open.file] = open.path;
      JobResult result;
      Bytes& file = folder_.incomplete[open.path];
      const uint64_t chunk = receiving_.slot_bytes() - kSlotExtraBytes;
      if (open.resume && file.size() == open.size) {
        for (uint64_t at = 0; at < file.size(); at += chunk) {
          result.crcs.push_back(
              crc_of(std::span(file).subspan(at, std::min<uint64_t>(chunk, file.size() - at))));
        }
      } else {
        file.assign(open.size, 0);
      }
      receiving_.on_done(open.job, result);
    });
  }
  void carry_out(WriteChunk& write) {
    jobs_.emplace_back([this, write] {
      JobResult result;
      if (crc_of(write.data) != write.crc) {
        result = {.verdict = Verdict::kDamaged, .text = "the CRC is wrong"};
      } else {
        Bytes& file = folder_.incomplete[paths_[write.file]];
        std::ranges::copy(write.data, file.begin() + static_cast<ptrdiff_t>(write.offset));
      }
      receiving_.on_done(write.job, result);
    });
  }
  void carry_out(PunchHole& hole) {
    jobs_.emplace_back([this, hole] {
      Bytes& file = folder_.incomplete[paths_[hole.file]];
      std::fill_n(file.begin() + static_cast<ptrdiff_t>(hole.offset), hole.length, 0);
      receiving_.on_done(hole.job, {});
    });
  }
  void carry_out(CloseFile& close) {
    jobs_.emplace_back([this, close] {
      const std::string path = paths_[close.file];
      folder_.files[path] = std::move(folder_.incomplete[path]);
      folder_.incomplete.erase(path);
      receiving_.on_done(close.job, {});
    });
  }
  void carry_out(StoreSmall& small) {
    jobs_.emplace_back([this, small] {
      JobResult result;
      if (crc_of(small.data) != small.crc) {
        result = {.verdict = Verdict::kDamaged, .text = "the CRC is wrong"};
      } else {
        folder_.files[small.path] = {small.data.begin(), small.data.end()};
      }
      receiving_.on_done(small.job, result);
    });
  }
  void carry_out(MakeFolder& folder) {
    jobs_.emplace_back([this, folder] {
      folder_.folders[folder.path] = true;
      receiving_.on_done(folder.job, {});
    });
  }
  void carry_out(DropFile& /*drop*/) {}
  void carry_out(FileFailed& /*failed*/) {}
  void carry_out(SendReply& reply) { replies_.push_back(std::move(reply.bytes)); }
  void carry_out(EndConnection& end) { cut_off = end.why; }

  SeededRandom random_;
  SimulatedFolder& folder_;
  Sending sending_;
  Receiving receiving_;
  std::map<FileId, Bytes> sources_;
  std::map<FileId, std::string> names_;
  std::map<FileId, std::string> paths_;  // as the receiver has them
  std::vector<Bytes> ours_;
  std::vector<Bytes> theirs_;
  std::deque<std::pair<uint16_t, size_t>> frames_;
  std::deque<uint16_t> sent_order_;
  std::deque<Bytes> replies_;
  std::vector<std::function<void()>> fills_;
  std::vector<std::function<void()>> jobs_;
  std::vector<std::function<void()>> sent_;
};

}  // namespace verbena::transfer
