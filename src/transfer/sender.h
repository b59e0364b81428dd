// SPDX-License-Identifier: Apache-2.0
// Sends files to a receiver: in our mode over one or several connections, in plain mode over one
// for each file.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/kernel_random.h"
#include "transfer/announcement.h"
#include "transfer/liveness.h"
#include "transfer/loop.h"
#include "transfer/plain.h"
#include "transfer/sending.h"
#include "transfer/source.h"

namespace verbena::transfer {

struct SenderOptions {
  fabric::Endpoint to{};
  SendOptions sending{};
  std::string secret{};
  uint32_t streams = 1;
  uint64_t bytes_per_second = 0;  // 0: as many as can be
  size_t workers = 2;
  LivenessOptions liveness{};
  // For people; any may be empty.
  std::function<void(const std::string& path, uint64_t bytes)> on_stored{};
  std::function<void(const std::string& path, Verdict verdict, const std::string& why)> on_failed{};
  std::function<void(const Progress& progress)> on_progress{};
};

struct SenderTotals {
  uint64_t stored = 0;
  uint64_t failed = 0;
  uint64_t bytes = 0;    // of files that are stored
  uint64_t sent = 0;     // bytes of data that were sent
  uint64_t skipped = 0;  // that were there already, or holes
  bool plain = false;    // the receiver is not one of ours
};

class Sender final : private fabric::Handler {
 public:
  Sender(SenderOptions options, std::unique_ptr<fabric::Fabric> fabric);
  ~Sender() override;

  // All of these; why it was broken off, if it was.
  [[nodiscard]] Result<void, std::string> send(std::vector<SourceEntry> entries);
  void stop();  // by any thread, or a signal's handler
  [[nodiscard]] const SenderTotals& totals() const { return totals_; }

 private:
  struct Stream {
    Greeting greeting{};
    bool connected = false;
    bool ended = false;  // the fabric has nothing of it any more
    std::optional<Sending> machine{};
    std::optional<PlainSending> plain{};
    std::unique_ptr<FabricMemory> memory{};
    std::map<FileId, size_t> entries{};  // in entries_
    Source source{};
    std::deque<Post> posts{};  // that wait for the rate
    size_t jobs = 0;
    Liveness liveness{};
    bool speaking = false;  // the write that says so is on its way
    bool over = false;      // it has nothing more to do
    uint64_t plain_offset = 0;
    std::optional<PlainSending::WriteNext> plain_post{};  // that waits for the rate
  };

  void on_accepted(fabric::ConnectionId connection, std::span<const uint8_t> data) override;
  void on_connected(fabric::ConnectionId connection) override;
  void on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) override;
  void on_sendable(fabric::ConnectionId) override {}
  void on_done(fabric::ConnectionId connection, fabric::OperationId operation, bool good) override;
  void on_failed(fabric::ConnectionId connection, std::string_view why) override;
  void on_ended(fabric::ConnectionId connection) override;

  void connect();
  void feed(Stream& stream);
  [[nodiscard]] size_t level_of(size_t entry) const;
  void carry_out(fabric::ConnectionId id, Stream& stream);
  void do_action(fabric::ConnectionId id, Stream& stream, FillSmall& action);
  void do_action(fabric::ConnectionId id, Stream& stream, FillChunk& action);
  void do_action(fabric::ConnectionId id, Stream& stream, Post& action);
  void do_action(fabric::ConnectionId id, Stream& stream, FileEnded& action);
  void do_action(fabric::ConnectionId id, Stream& stream, AllSent& action);
  void do_action(fabric::ConnectionId id, Stream& stream, SendFailed& action);
  void do_plain(fabric::ConnectionId id, Stream& stream, PlainSending::Action& action);
  void fill(fabric::ConnectionId id, Stream& stream, uint16_t slot,
            std::function<Filled(std::span<uint8_t>)> work);
  void post(fabric::ConnectionId id, Stream& stream, const Post& post);
  void post_plain(fabric::ConnectionId id, const Stream& stream,
                  const PlainSending::WriteNext& next);
  void post_waiting();
  void mind_the_silent();
  void finish(Stream& stream, FileId file, Verdict verdict, const std::string& why);
  void break_off(std::string why);
  [[nodiscard]] std::span<uint8_t> slot(const Stream& stream, uint16_t slot) const;
  [[nodiscard]] bool over() const;
  void show_progress();

  const SenderOptions options_;
  std::unique_ptr<fabric::Fabric> fabric_;
  KernelRandom random_;
  std::vector<SourceEntry> entries_;
  std::deque<size_t> waiting_;  // of them, to be begun
  size_t unfinished_ = 0;
  size_t level_ = SIZE_MAX;  // of those that are under way
  std::unordered_map<fabric::ConnectionId, std::unique_ptr<Stream>> streams_;
  std::optional<std::string> broken_;
  std::atomic<bool> stop_{false};
  SenderTotals totals_;
  // By streams that have ended, and in plain mode.
  uint64_t sent_before_ = 0;
  uint64_t skipped_before_ = 0;
  double allowance_ = 0;  // bytes that may be sent now
  Time allowed_at_ = 0;
  Loop loop_;
};

}  // namespace verbena::transfer
