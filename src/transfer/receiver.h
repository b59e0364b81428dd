// SPDX-License-Identifier: Apache-2.0
// Receives files from any number of senders into a folder: our mode from our own, plain mode from
// others.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/kernel_random.h"
#include "transfer/announcement.h"
#include "transfer/liveness.h"
#include "transfer/loop.h"
#include "transfer/plain.h"
#include "transfer/receiving.h"
#include "transfer/sink.h"

namespace verbena::transfer {

struct ReceiverOptions {
  fabric::Endpoint listen{.host = {}, .port = kPlainPort};
  ReceiveLimits limits{};
  std::string secret{};  // empty: none; otherwise only those who have it, so no plain mode
  bool once = false;     // end with the first sender's connection
  size_t max_senders = 16;
  LivenessOptions liveness{};
  size_t workers = 2;
  // For people; any may be empty.
  std::function<void(const std::string& path, uint64_t bytes)> on_stored{};
  std::function<void(const std::string& path, const std::string& why)> on_refused{};
  std::function<void(const std::string& why)> on_ended{};  // a connection; empty: in order
  std::function<void(const Progress& progress)> on_progress{};
};

struct ReceiverTotals {
  uint64_t stored = 0;
  uint64_t failed = 0;
  uint64_t bytes = 0;
  uint64_t broken = 0;  // connections
};

class Receiver final : private fabric::Handler {
 public:
  Receiver(ReceiverOptions options, std::unique_ptr<fabric::Fabric> fabric,
           std::unique_ptr<Sink> sink);
  ~Receiver() override;

  [[nodiscard]] Result<fabric::Endpoint, std::string> start();
  // Until stop(), or with `once` the end of the first connection.
  void run();
  void stop();  // by any thread, or a signal's handler
  [[nodiscard]] const ReceiverTotals& totals() const { return totals_; }

 private:
  struct Asked {  // before it is connected
    bool ours = false;
    std::optional<protocol::Mac> proof{};
  };
  struct Sender {
    std::unique_ptr<FabricMemory> memory{};
    Outbox outbox{};
    std::optional<Receiving> machine{};
    std::map<FileId, std::shared_ptr<SinkFile>> files{};
    std::map<FileId, std::string> names{};
    std::optional<PlainReceiving> plain{};
    std::shared_ptr<SinkFile> plain_file{};
    std::string plain_name{};
    Liveness liveness{};
    size_t jobs = 0;
    bool ended = false;    // the fabric has nothing of it any more
    Time end_at = kNever;  // it is ended by us then
    std::string why{};     // it was broken off
  };

  std::optional<std::vector<uint8_t>> on_request(fabric::ConnectionId connection,
                                                 std::span<const uint8_t> data) override;
  void on_connected(fabric::ConnectionId connection) override;
  void on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) override;
  void on_immediate(fabric::ConnectionId connection, uint32_t immediate) override;
  void on_sendable(fabric::ConnectionId connection) override;
  void on_done(fabric::ConnectionId, fabric::OperationId, bool) override {}
  void on_failed(fabric::ConnectionId connection, std::string_view why) override;
  void on_ended(fabric::ConnectionId connection) override;

  void carry_out(fabric::ConnectionId id, Sender& sender);
  void run_job(fabric::ConnectionId id, JobId job, std::string path, uint64_t bytes,
               std::function<JobResult()> work);
  void do_action(fabric::ConnectionId id, Sender& sender, OpenFile& action);
  void do_action(fabric::ConnectionId id, Sender& sender, WriteChunk& action);
  void do_action(fabric::ConnectionId id, Sender& sender, PunchHole& action);
  void do_action(fabric::ConnectionId id, Sender& sender, CloseFile& action);
  // Whole files and folders: all that a frame has go to a worker as one.
  using Whole = std::variant<StoreSmall, MakeFolder>;
  void store_all(fabric::ConnectionId id, std::vector<Whole> all);
  void do_action(fabric::ConnectionId id, Sender& sender, DropFile& action);
  void do_action(fabric::ConnectionId id, Sender& sender, FileFailed& action);
  void do_action(fabric::ConnectionId id, Sender& sender, SendReply& action);
  void do_action(fabric::ConnectionId id, Sender& sender, EndConnection& action);
  void do_plain(fabric::ConnectionId id, Sender& sender, PlainReceiving::Action& action);
  void run_plain(fabric::ConnectionId id, std::function<JobResult()> work,
                 std::function<void()> then = {});
  void finish_if_over(fabric::ConnectionId id);
  void end_those_due();
  void show_progress() const;
  void end_if_silent(fabric::ConnectionId id, Sender& sender, Time now);
  void report_stored(const std::string& path, uint64_t bytes);
  void report_failed(const std::string& path, const std::string& why);

  const ReceiverOptions options_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<Sink> sink_;
  KernelRandom random_;
  std::map<fabric::ConnectionId, Asked> asked_;  // the last ones
  std::unordered_map<fabric::ConnectionId, Sender> senders_;
  ReceiverTotals totals_;
  uint64_t received_before_ = 0;  // by connections that have ended, and in plain mode
  bool one_is_over_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<bool> leaving_{false};  // ends what the workers do for themselves
  Loop loop_;
};

}  // namespace verbena::transfer
