// SPDX-License-Identifier: Apache-2.0
#include "transfer/receiver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "session/draw.h"
#include "transfer/path.h"

namespace verbena::transfer {
namespace {

constexpr size_t kMaxAsked = 256;

}  // namespace

Receiver::Receiver(ReceiverOptions options, std::unique_ptr<fabric::Fabric> fabric,
                   std::unique_ptr<Sink> sink)
    : options_(std::move(options)),
      fabric_(std::move(fabric)),
      sink_(std::move(sink)),
      loop_(*fabric_) {}

Receiver::~Receiver() {
  leaving_.store(true);
  // Jobs use the slots, and the fabric does.
  loop_.stop_workers();
  for (auto& [id, sender] : senders_) {
    if (!sender.ended) fabric_->end(id);
  }
  const Time give_up = Loop::now() + kFarewell;
  const auto all_ended = [&] {
    return std::ranges::all_of(senders_, [](const auto& one) { return one.second.ended; });
  };
  while (!all_ended() && Loop::now() < give_up) static_cast<void>(fabric_->poll(*this));
  senders_.clear();
}

Result<fabric::Endpoint, std::string> Receiver::start() {
  if (random_.seed() != 0) return fail(std::string("there are no random numbers"));
  if (const auto started = loop_.start(options_.workers); !started) return fail(started.error());
  auto at = fabric_->listen(options_.listen);
  // Beside the transfers: the folder may be large.
  if (at) loop_.run_job([this] { sink_->remove_stale(leaving_); }, {});
  return at;
}

void Receiver::run() {
  loop_.run(
      *this,
      [this] {
        end_those_due();
        show_progress();
      },
      [this] { return stop_.load() || (options_.once && one_is_over_); },
      [this] {
        Time next = kNever;
        for (const auto& [id, sender] : senders_) {
          next = std::min({next, sender.end_at, sender.liveness.next()});
        }
        return next;
      });
}

void Receiver::show_progress() const {
  if (!options_.on_progress) return;
  Progress progress{.done_bytes = received_before_};
  for (const auto& [id, sender] : senders_) {
    if (sender.plain_file) progress.file = {.path = sender.plain_name};
    if (!sender.machine) continue;
    progress.done_bytes += sender.machine->received_bytes();
    if (progress.file.path.empty()) progress.file = sender.machine->progress();
  }
  options_.on_progress(progress);
}

void Receiver::stop() {
  stop_.store(true);
  loop_.wake();
}

// --- connections

std::optional<std::vector<uint8_t>> Receiver::on_request(fabric::ConnectionId id,
                                                         std::span<const uint8_t> data) {
  if (senders_.size() >= options_.max_senders) return std::nullopt;
  const auto greeting = decode_greeting(data);
  const bool ours = greeting && greeting->min_version <= kVersion;
  if (!options_.secret.empty() && (!ours || !greeting->has_secret)) {
    if (options_.on_ended) options_.on_ended("a sender without the shared secret was refused");
    return std::nullopt;
  }
  // Those that never come are forgotten.
  if (asked_.size() >= kMaxAsked) asked_.erase(asked_.begin());
  Asked& asked = asked_[id];
  asked.ours = ours;
  if (!ours) return std::vector<uint8_t>();
  Welcome welcome{.has_secret = !options_.secret.empty()};
  welcome.nonce = session::draw_bytes<welcome.nonce.size()>(random_);
  if (welcome.has_secret) {
    welcome.mac = receiver_mac(options_.secret, *greeting, welcome);
    asked.proof = sender_mac(options_.secret, *greeting, welcome);
  }
  return encode(welcome);
}

void Receiver::on_connected(fabric::ConnectionId id) {
  const auto asked = asked_.extract(id);
  if (asked.empty() || senders_.size() >= options_.max_senders) return fabric_->end(id);
  Sender& sender = senders_[id];
  sender.liveness = Liveness(options_.liveness, Loop::now());
  const bool ours = asked.mapped().ours;
  const size_t slot_bytes = options_.limits.chunk_bytes + kSlotExtraBytes;
  auto memory = FabricMemory::make(
      *fabric_, ours ? slot_bytes * options_.limits.slots : kPlainBufferBytes, true);
  if (!memory) {
    sender.why = memory.error();
    return fabric_->end(id);
  }
  sender.memory = std::move(*memory);
  if (ours) {
    sender.machine.emplace(options_.limits, asked.mapped().proof);
    sender.machine->start(sender.memory->address(), sender.memory->rkey());
  } else {
    sender.plain.emplace(options_.limits.max_file_bytes);
    sender.plain->start(sender.memory->address(), sender.memory->rkey());
  }
  carry_out(id, sender);
}

void Receiver::on_message(fabric::ConnectionId id, std::span<const uint8_t> /*message*/) {
  on_failed(id, "the sender sends messages, which it should not");
}

void Receiver::on_immediate(fabric::ConnectionId id, uint32_t immediate) {
  const auto found = senders_.find(id);
  if (found == senders_.end() || found->second.memory == nullptr) return;
  Sender& sender = found->second;
  const auto bytes = sender.memory->bytes();
  if (sender.machine) {
    // Those who lack the secret have as long as the silent.
    if (sender.machine->proven()) sender.liveness.heard(Loop::now());
    if (immediate == kAliveImmediate) return;
    const size_t slot = sender.machine->slot_bytes();
    const bool inside = immediate < options_.limits.slots;
    sender.machine->on_frame(immediate,
                             inside ? bytes.subspan(immediate * slot, slot) : bytes.first(0));
  } else if (sender.plain) {
    sender.liveness.heard(Loop::now());
    sender.plain->on_immediate(immediate, bytes);
  }
  carry_out(id, sender);
}

void Receiver::on_sendable(fabric::ConnectionId id) {
  const auto found = senders_.find(id);
  if (found != senders_.end()) found->second.outbox.go_on(*fabric_, id);
}

void Receiver::on_failed(fabric::ConnectionId id, std::string_view why) {
  const auto found = senders_.find(id);
  if (found != senders_.end()) {
    Sender& sender = found->second;
    const bool incomplete =
        (sender.machine && !sender.machine->idle()) || (sender.plain && !sender.plain->complete());
    if (incomplete && sender.why.empty()) sender.why = why;
    if (sender.machine) sender.machine->on_lost();
    carry_out(id, sender);
  }
  fabric_->end(id);
}

void Receiver::on_ended(fabric::ConnectionId id) {
  const auto found = senders_.find(id);
  if (found == senders_.end()) return;
  found->second.ended = true;
  if (found->second.machine) found->second.machine->on_lost();
  carry_out(id, found->second);
  finish_if_over(id);
}

void Receiver::finish_if_over(fabric::ConnectionId id) {
  const auto found = senders_.find(id);
  if (found == senders_.end() || !found->second.ended || found->second.jobs > 0) return;
  Sender& sender = found->second;
  if (sender.plain_file && !sender.plain->ended()) {
    report_failed(sender.plain_name, "the transfer was broken off");
  }
  if (!sender.why.empty()) ++totals_.broken;
  if (options_.on_ended) options_.on_ended(sender.why);
  if (sender.machine) received_before_ += sender.machine->received_bytes();
  senders_.erase(found);
  one_is_over_ = true;
}

void Receiver::end_those_due() {
  const Time now = Loop::now();
  for (auto& [id, sender] : senders_) {
    end_if_silent(id, sender, now);
    if (sender.end_at > now) continue;
    sender.end_at = kNever;
    fabric_->end(id);
  }
}

// A sender that neither says anything nor leaves would keep its place from others for ever.
void Receiver::end_if_silent(fabric::ConnectionId id, Sender& sender, Time now) {
  // While we are at work it may have to wait for us.
  if (sender.jobs > 0) sender.liveness.heard(now);
  const bool over = sender.ended || sender.end_at != kNever;
  if (!over && sender.liveness.silent(now)) {
    const std::string why =
        fmt::format("the sender was silent for {} s",
                    static_cast<double>(options_.liveness.idle_timeout) / kSecond);
    sender.liveness.heard(now);
    if (!sender.machine) return on_failed(id, why);
    sender.machine->cut_off(why);
    return carry_out(id, sender);
  }
  if (!sender.liveness.must_speak(now)) return;
  sender.liveness.said(now);
  if (!over && sender.machine) {
    SendReply alive{encode(Alive{})};
    do_action(id, sender, alive);
  }
}

// --- what the machines want

void Receiver::carry_out(fabric::ConnectionId id, Sender& sender) {
  if (sender.machine) {
    std::vector<Whole> all;
    for (auto& action : sender.machine->take_actions()) {
      std::visit(
          [&]<typename A>(A& a) {
            if constexpr (std::is_constructible_v<Whole, A>) {
              all.emplace_back(std::move(a));
            } else {
              do_action(id, sender, a);
            }
          },
          action);
    }
    if (!all.empty()) store_all(id, std::move(all));
  }
  if (sender.plain) {
    for (auto& action : sender.plain->take_actions()) do_plain(id, sender, action);
  }
}

void Receiver::run_job(fabric::ConnectionId id, JobId job, std::string path, uint64_t bytes,
                       std::function<JobResult()> work) {
  ++senders_[id].jobs;
  auto result = std::make_shared<JobResult>();
  loop_.run_job([result, work = std::move(work)] { *result = work(); },
                [this, id, job, bytes, path = std::move(path), result] {
                  Sender& sender = senders_.at(id);
                  --sender.jobs;
                  if (!path.empty() && result->verdict == Verdict::kStored) {
                    report_stored(path, bytes);
                  }
                  sender.machine->on_done(job, std::move(*result));
                  carry_out(id, sender);
                  finish_if_over(id);
                });
}

void Receiver::do_action(fabric::ConnectionId id, Sender& sender, OpenFile& action) {
  sender.names[action.file] = action.path;
  ++sender.jobs;
  struct Opened {
    JobResult result;
    std::shared_ptr<SinkFile> file;
  };
  auto opened = std::make_shared<Opened>();
  const uint32_t chunk = options_.limits.chunk_bytes;
  loop_.run_job([this, opened, action,
                 chunk] { opened->result = sink_->open_file(action, chunk, opened->file); },
                [this, id, opened, job = action.job, file = action.file] {
                  Sender& now = senders_.at(id);
                  --now.jobs;
                  if (opened->file != nullptr) now.files[file] = std::move(opened->file);
                  now.machine->on_done(job, std::move(opened->result));
                  carry_out(id, now);
                  finish_if_over(id);
                });
}
void Receiver::do_action(fabric::ConnectionId id, Sender& sender, WriteChunk& action) {
  const auto file = sender.files.at(action.file);
  run_job(id, action.job, {}, 0, [this, file, action] {
    JobResult result = sink_->write(*file, action.offset, action.data, action.crc);
    if (result.verdict == Verdict::kFull) sink_->remove(*file);
    return result;
  });
}
void Receiver::do_action(fabric::ConnectionId id, Sender& sender, PunchHole& action) {
  run_job(id, action.job, {}, 0, [this, file = sender.files.at(action.file), action] {
    return sink_->punch(*file, action.offset, action.length);
  });
}
void Receiver::do_action(fabric::ConnectionId id, Sender& sender, CloseFile& action) {
  const auto file = sender.files.at(action.file);
  sender.files.erase(action.file);
  auto name = sender.names.extract(action.file);
  run_job(id, action.job, std::move(name.mapped()), file->size(),
          [this, file] { return sink_->close(*file); });
}
// A job for each would wake a worker and this thread for each, which costs more than the file.
void Receiver::store_all(fabric::ConnectionId id, std::vector<Whole> all) {
  ++senders_[id].jobs;
  struct Batch {
    std::vector<Whole> all;
    std::vector<JobResult> results;
  };
  auto batch = std::make_shared<Batch>();
  batch->all = std::move(all);
  loop_.run_job(
      [this, batch] {
        for (const Whole& one : batch->all) {
          const auto* const small = std::get_if<StoreSmall>(&one);
          batch->results.push_back(small != nullptr
                                       ? sink_->store_small(*small)
                                       : sink_->make_folder(std::get<MakeFolder>(one)));
        }
      },
      [this, id, batch] {
        Sender& sender = senders_.at(id);
        --sender.jobs;
        for (size_t i = 0; i < batch->all.size(); ++i) {
          JobResult& result = batch->results[i];
          const auto* const small = std::get_if<StoreSmall>(&batch->all[i]);
          if (small != nullptr && result.verdict == Verdict::kStored) {
            report_stored(small->path, small->data.size());
          }
          const JobId job = std::visit([](const auto& one) { return one.job; }, batch->all[i]);
          sender.machine->on_done(job, std::move(result));
        }
        carry_out(id, sender);
        finish_if_over(id);
      });
}
void Receiver::do_action(fabric::ConnectionId /*id*/, Sender& sender, DropFile& action) {
  sender.files.erase(action.file);
  sender.names.erase(action.file);
}
void Receiver::do_action(fabric::ConnectionId /*id*/, Sender& /*sender*/, FileFailed& action) {
  report_failed(action.path, action.text);
}
void Receiver::do_action(fabric::ConnectionId id, Sender& sender, SendReply& action) {
  if (sender.ended || sender.outbox.full()) return;
  sender.outbox.send(*fabric_, id, action.bytes);
  if (!sender.outbox.full()) return;
  sender.why = "the sender takes no replies";
  sender.end_at = 0;
}
void Receiver::do_action(fabric::ConnectionId /*id*/, Sender& sender, EndConnection& action) {
  sender.why = std::move(action.why);
  sender.end_at = Loop::now() + kFarewell;
}

void Receiver::do_plain(fabric::ConnectionId id, Sender& sender, PlainReceiving::Action& action) {
  if (auto* const reply = std::get_if<PlainReceiving::Reply>(&action)) {
    if (!sender.ended) sender.outbox.send(*fabric_, id, encode(reply->message));
  } else if (auto* const open = std::get_if<PlainReceiving::OpenIt>(&action)) {
    sender.plain_name = open->path;
    auto file = std::make_shared<std::shared_ptr<SinkFile>>();
    run_plain(
        id, [this, file, path = open->path] { return sink_->open_plain(path, *file); },
        [this, id, file] { senders_.at(id).plain_file = std::move(*file); });
  } else if (auto* const append = std::get_if<PlainReceiving::AppendIt>(&action)) {
    received_before_ += append->data.size();
    run_plain(id, [this, file = sender.plain_file, data = append->data] {
      return sink_->append(*file, data);
    });
  } else if (std::holds_alternative<PlainReceiving::CloseIt>(action)) {
    run_plain(id, [this, file = sender.plain_file] { return sink_->close(*file); });
  } else {
    sender.why = std::get<PlainReceiving::End>(action).why;
    report_failed(sender.plain_name, sender.why);
    sender.plain_file.reset();
    sender.end_at = 0;
  }
}

void Receiver::run_plain(fabric::ConnectionId id, std::function<JobResult()> work,
                         std::function<void()> then) {
  ++senders_[id].jobs;
  auto result = std::make_shared<JobResult>();
  loop_.run_job([result, work = std::move(work)] { *result = work(); },
                [this, id, result, then = std::move(then)] {
                  Sender& sender = senders_.at(id);
                  --sender.jobs;
                  if (then) then();
                  sender.plain->on_done(result->text);
                  if (sender.plain->stored() && sender.plain_file) {
                    report_stored(sender.plain_name, sender.plain_file->size());
                    sender.plain_file.reset();
                  }
                  carry_out(id, sender);
                  finish_if_over(id);
                });
}

void Receiver::report_stored(const std::string& path, uint64_t bytes) {
  ++totals_.stored;
  totals_.bytes += bytes;
  if (options_.on_stored) options_.on_stored(path, bytes);
}

void Receiver::report_failed(const std::string& path, const std::string& why) {
  ++totals_.failed;
  if (options_.on_refused) options_.on_refused(path, why);
}

}  // namespace verbena::transfer
