// SPDX-License-Identifier: Apache-2.0
#include "transfer/sender.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "session/draw.h"
#include "session/secret.h"

namespace verbena::transfer {
namespace {

// So many files are given to a connection before they can be begun.
constexpr size_t kFedAhead = 256;
// Not a slot's number.
constexpr fabric::OperationId kAliveOperation = kAliveImmediate;

}  // namespace

Sender::Sender(SenderOptions options, std::unique_ptr<fabric::Fabric> fabric)
    : options_(std::move(options)), fabric_(std::move(fabric)), loop_(*fabric_) {}

Sender::~Sender() {
  loop_.stop_workers();
  for (const auto& [id, stream] : streams_) fabric_->end(id);
  const Time give_up = Loop::now() + kFarewell;
  const auto all_ended = [&] {
    return std::ranges::all_of(streams_, [](const auto& one) { return one.second->ended; });
  };
  while (!all_ended() && Loop::now() < give_up) static_cast<void>(fabric_->poll(*this));
}

Result<void, std::string> Sender::send(std::vector<SourceEntry> entries) {
  if (random_.seed() != 0) return fail(std::string("there are no random numbers"));
  if (const auto started = loop_.start(options_.workers); !started) return fail(started.error());
  entries_ = std::move(entries);
  unfinished_ = entries_.size();
  // Folders last, the innermost first: they may be such that nothing can be put into them.
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].file.folder) waiting_.push_back(i);
  }
  const auto first_folder = static_cast<ptrdiff_t>(waiting_.size());
  for (size_t i = entries_.size(); i-- > 0;) {
    if (entries_[i].file.folder) waiting_.push_back(i);
  }
  std::sort(waiting_.begin() + first_folder, waiting_.end(), [this](size_t a, size_t b) {
    return level_of(a) != level_of(b) ? level_of(a) > level_of(b) : a > b;
  });
  if (unfinished_ == 0) return {};
  allowed_at_ = Loop::now();
  for (uint32_t i = 0; i < std::max(options_.streams, 1U); ++i) connect();
  loop_.run(
      *this,
      [this] {
        post_waiting();
        mind_the_silent();
        show_progress();
      },
      [this] { return over(); },
      [this] {
        Time next = Loop::now() + (options_.bytes_per_second > 0 ? kMillisecond : kSecond);
        for (const auto& [id, stream] : streams_) next = std::min(next, stream->liveness.next());
        return next;
      });
  if (unfinished_ == 0) return {};
  if (stop_.load()) return fail(std::string("it was interrupted"));
  if (broken_) return fail(*broken_);
  return {};
}

void Sender::stop() {
  stop_.store(true);
  loop_.wake();
}

bool Sender::over() const { return unfinished_ == 0 || broken_ || stop_.load(); }

void Sender::break_off(std::string why) {
  if (!broken_) broken_ = std::move(why);
}

// --- connections

void Sender::connect() {
  auto stream = std::make_unique<Stream>();
  stream->liveness = Liveness(options_.liveness, Loop::now());
  stream->greeting.has_secret = !options_.secret.empty();
  stream->greeting.nonce = session::draw_bytes<std::tuple_size_v<protocol::Nonce>>(random_);
  const auto id = fabric_->connect(options_.to, encode(stream->greeting));
  streams_.emplace(id, std::move(stream));
}

void Sender::on_accepted(fabric::ConnectionId id, std::span<const uint8_t> data) {
  Stream& stream = *streams_.at(id);
  const auto welcome = decode_welcome(data);
  if (!welcome) {
    if (!options_.secret.empty()) {
      return break_off("the receiver does not know of shared secrets, and one is to be used");
    }
    totals_.plain = true;
    return;  // plain mode
  }
  if (welcome->version != kVersion) return break_off("the receiver has another version");
  std::optional<protocol::Mac> proof;
  if (welcome->has_secret != !options_.secret.empty()) {
    return break_off(welcome->has_secret ? "the receiver requires a shared secret"
                                         : "the receiver has no shared secret");
  }
  if (welcome->has_secret) {
    const auto mac = receiver_mac(options_.secret, stream.greeting, *welcome);
    if (!session::same_mac(mac, welcome->mac)) {
      return break_off("the shared secrets of sender and receiver differ");
    }
    proof = sender_mac(options_.secret, stream.greeting, *welcome);
  }
  stream.machine.emplace(options_.sending, proof);
}

void Sender::on_connected(fabric::ConnectionId id) {
  if (broken_) return;
  Stream& stream = *streams_.at(id);
  stream.connected = true;
  stream.liveness.heard(Loop::now());
  if (stream.machine) return feed(stream);
  // One file; folders are made of the names.
  while (!waiting_.empty() && entries_[waiting_.front()].file.folder) {
    waiting_.pop_front();
    --unfinished_;
  }
  if (waiting_.empty()) {
    stream.over = true;
    return fabric_->end(id);
  }
  const size_t entry = waiting_.front();
  waiting_.pop_front();
  auto memory = FabricMemory::make(*fabric_, kPlainBufferBytes, false);
  if (!memory) return break_off(memory.error());
  stream.memory = std::move(*memory);
  stream.entries[1] = entry;
  stream.source.add(1, entries_[entry]);
  stream.plain.emplace(entries_[entry].file.path);
}

void Sender::on_message(fabric::ConnectionId id, std::span<const uint8_t> message) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  stream.liveness.heard(Loop::now());
  if (stream.machine) {
    stream.machine->on_reply(message);
    const auto& offer = stream.machine->offer();
    if (offer && stream.memory == nullptr) {
      const size_t bytes = (offer->chunk_bytes + kSlotExtraBytes) * stream.machine->slots();
      auto memory = FabricMemory::make(*fabric_, bytes, false);
      if (!memory) return break_off(memory.error());
      stream.memory = std::move(*memory);
    }
  } else if (stream.plain) {
    stream.plain->on_message(message);
  }
  carry_out(id, stream);
  if (stream.machine && !stream.over) {
    feed(stream);
    carry_out(id, stream);
  }
}

void Sender::on_done(fabric::ConnectionId id, fabric::OperationId operation, bool good) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !good || found->second->over) return;
  Stream& stream = *found->second;
  if (operation == kAliveOperation) {
    stream.speaking = false;
    return;
  }
  if (!stream.machine) return;
  stream.machine->on_sent(static_cast<uint16_t>(operation));
  carry_out(id, stream);
}

void Sender::on_failed(fabric::ConnectionId id, std::string_view why) {
  const auto found = streams_.find(id);
  fabric_->end(id);
  if (found == streams_.end() || found->second->over) return;
  Stream& stream = *found->second;
  if (stream.plain) {
    stream.plain->on_failed(fmt::format("the connection was lost: {}", why));
    return carry_out(id, stream);
  }
  break_off(fmt::format("{} {}:{}: {}",
                        stream.connected ? "the connection was lost to" : "cannot connect to",
                        options_.to.host, options_.to.port, why));
}

void Sender::on_ended(fabric::ConnectionId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  stream.ended = true;
  if (stream.jobs > 0) return;
  const bool was_plain = stream.plain.has_value();
  if (stream.machine) {
    sent_before_ += stream.machine->sent_bytes();
    skipped_before_ += stream.machine->skipped_bytes();
  }
  streams_.erase(found);
  if (was_plain && !over() && !waiting_.empty()) connect();
}

// A receiver of ours says something at least every few seconds, whatever it does.
void Sender::mind_the_silent() {
  const Time now = Loop::now();
  for (const auto& [id, one] : streams_) {
    Stream& stream = *one;
    // The connection manager gives up by itself.
    if (!stream.connected || stream.over || stream.ended || broken_) continue;
    // In plain mode it is told nothing while we read or wait for the rate, and has nothing to say.
    if (stream.plain && (stream.jobs > 0 || stream.plain_post)) stream.liveness.heard(now);
    if (stream.liveness.silent(now)) {
      return on_failed(id, fmt::format("the receiver was silent for {} s",
                                       static_cast<double>(options_.liveness.idle_timeout) /
                                           static_cast<double>(kSecond)));
    }
    if (!stream.liveness.must_speak(now)) continue;
    stream.liveness.said(now);
    if (!stream.machine || !stream.machine->offer() || stream.speaking) continue;
    stream.speaking = true;
    const Offer& offer = *stream.machine->offer();
    fabric_->write_immediate(id, {}, {offer.address, offer.rkey, 0}, kAliveImmediate,
                             kAliveOperation);
  }
}

// --- files

// Of a folder, how deep it is; all files are one.
size_t Sender::level_of(size_t entry) const {
  const SourceFile& file = entries_[entry].file;
  return file.folder ? static_cast<size_t>(std::ranges::count(file.path, '/')) : SIZE_MAX;
}

void Sender::feed(Stream& stream) {
  while (!waiting_.empty() && stream.machine->waiting() < kFedAhead) {
    const size_t entry = waiting_.front();
    // A folder's turn comes when all files have ended, and all folders below it.
    if (level_of(entry) != level_ && unfinished_ > waiting_.size()) break;
    level_ = level_of(entry);
    waiting_.pop_front();
    // Before the machine can ask for it.
    const FileId id = stream.machine->next();
    stream.entries[id] = entry;
    stream.source.add(id, entries_[entry]);
    static_cast<void>(stream.machine->add(entries_[entry].file));
  }
}

void Sender::finish(Stream& stream, FileId file, Verdict verdict, const std::string& why) {
  const auto found = stream.entries.find(file);
  if (found == stream.entries.end()) return;
  const SourceFile& source = entries_[found->second].file;
  --unfinished_;
  if (verdict == Verdict::kStored) {
    ++totals_.stored;
    totals_.bytes += source.size;
    if (options_.on_stored) options_.on_stored(source.path, source.size);
  } else {
    ++totals_.failed;
    if (options_.on_failed) options_.on_failed(source.path, verdict, why);
  }
  stream.source.drop(file);
  stream.entries.erase(found);
}

void Sender::show_progress() {
  totals_.sent = sent_before_;
  totals_.skipped = skipped_before_;
  Progress progress;
  uint64_t under_way = 0;
  for (const auto& [id, stream] : streams_) {
    if (stream->plain && !stream->entries.empty()) {
      const SourceFile& file = entries_[stream->entries.begin()->second].file;
      progress.file = {file.path, stream->plain_offset, file.size};
    }
    if (!stream->machine) continue;
    totals_.sent += stream->machine->sent_bytes();
    totals_.skipped += stream->machine->skipped_bytes();
    under_way += stream->machine->bytes_under_way();
    if (progress.file.path.empty()) progress.file = stream->machine->progress();
  }
  const uint64_t done = totals_.sent + totals_.skipped;
  progress.done_bytes = done - std::min(done, under_way);
  if (options_.on_progress) options_.on_progress(progress);
}

// --- what the machines want

void Sender::carry_out(fabric::ConnectionId id, Stream& stream) {
  if (stream.machine) {
    for (auto actions = stream.machine->take_actions(); !actions.empty();
         actions = stream.machine->take_actions()) {
      for (auto& action : actions) std::visit([&](auto& a) { do_action(id, stream, a); }, action);
    }
  } else if (stream.plain) {
    for (auto& action : stream.plain->take_actions()) do_plain(id, stream, action);
  }
}

std::span<uint8_t> Sender::slot(const Stream& stream, uint16_t slot) const {
  const size_t bytes = stream.machine->offer()->chunk_bytes + kSlotExtraBytes;
  return stream.memory->bytes().subspan(bytes * slot, bytes);
}

void Sender::fill(fabric::ConnectionId id, Stream& stream, uint16_t number,
                  std::function<Filled(std::span<uint8_t>)> work) {
  ++stream.jobs;
  auto filled = std::make_shared<Filled>();
  loop_.run_job([filled, work = std::move(work), to = slot(stream, number)] { *filled = work(to); },
                [this, id, number, filled] {
                  Stream& now = *streams_.at(id);
                  --now.jobs;
                  if (now.ended && now.jobs == 0) return on_ended(id);
                  now.machine->on_filled(number, std::move(*filled));
                  carry_out(id, now);
                  // Files that could not be read have ended, and nothing was sent of them.
                  feed(now);
                  carry_out(id, now);
                });
}

void Sender::do_action(fabric::ConnectionId id, Stream& stream, FillSmall& action) {
  fill(id, stream, action.slot,
       [&stream, action](std::span<uint8_t> to) { return stream.source.fill(action, to); });
}
void Sender::do_action(fabric::ConnectionId id, Stream& stream, FillChunk& action) {
  fill(id, stream, action.slot,
       [&stream, action](std::span<uint8_t> to) { return stream.source.fill(action, to); });
}
void Sender::do_action(fabric::ConnectionId id, Stream& stream, Post& action) {
  if (!action.bytes.empty()) std::ranges::copy(action.bytes, slot(stream, action.slot).begin());
  if (options_.bytes_per_second == 0) return post(id, stream, action);
  stream.posts.push_back(std::move(action));
}
void Sender::do_action(fabric::ConnectionId /*id*/, Stream& stream, FileEnded& action) {
  finish(stream, action.file, action.verdict, action.text);
}
void Sender::do_action(fabric::ConnectionId /*id*/, Stream& /*stream*/, AllSent& /*action*/) {}
void Sender::do_action(fabric::ConnectionId /*id*/, Stream& stream, SendFailed& action) {
  stream.over = true;
  break_off(std::move(action.why));
}

void Sender::post(fabric::ConnectionId id, Stream& stream, const Post& post) {
  const Offer& offer = *stream.machine->offer();
  const uint64_t to = offer.address + uint64_t{post.slot} * (offer.chunk_bytes + kSlotExtraBytes);
  const auto bytes = slot(stream, post.slot).first(post.length);
  fabric_->write_immediate(id, bytes, {to, offer.rkey, static_cast<uint32_t>(bytes.size())},
                           post.slot, post.slot);
}

// As many as the rate allows; a second's worth at most after a pause.
void Sender::post_waiting() {
  if (options_.bytes_per_second == 0) return;
  const Time now = Loop::now();
  const auto rate = static_cast<double>(options_.bytes_per_second);
  allowance_ += rate * static_cast<double>(now - allowed_at_) / static_cast<double>(kSecond);
  allowance_ = std::min(allowance_, std::max(rate / 10, 1.0));
  allowed_at_ = now;
  for (auto& [id, stream] : streams_) {
    while (!stream->posts.empty() && allowance_ > 0) {
      allowance_ -= static_cast<double>(stream->posts.front().length);
      post(id, *stream, stream->posts.front());
      stream->posts.pop_front();
    }
    if (!stream->plain_post || allowance_ <= 0 || stream->ended) continue;
    allowance_ -= stream->plain_post->length;
    post_plain(id, *stream, *std::exchange(stream->plain_post, std::nullopt));
  }
}

void Sender::post_plain(fabric::ConnectionId id, const Stream& stream,
                        const PlainSending::WriteNext& next) {
  fabric_->write_immediate(id, stream.memory->bytes().first(next.length),
                           {next.address, next.rkey, next.length}, next.length, 0);
}

void Sender::do_plain(fabric::ConnectionId id, Stream& stream, PlainSending::Action& action) {
  const auto memory = stream.memory->bytes();
  if (auto* const name = std::get_if<PlainSending::WriteName>(&action)) {
    std::ranges::copy(bytes_of(name->name), memory.begin());
    const auto length = static_cast<uint32_t>(name->name.size());
    fabric_->write_immediate(id, memory.first(length), {name->address, name->rkey, length}, length,
                             0);
  } else if (std::holds_alternative<PlainSending::ReadNext>(action)) {
    ++stream.jobs;
    using Read = Result<size_t, std::string>;
    auto result = std::make_shared<std::optional<Read>>();
    loop_.run_job(
        [result, &stream, memory, offset = stream.plain_offset] {
          result->emplace(stream.source.read(1, offset, memory));
        },
        [this, id, result] {
          Stream& now = *streams_.at(id);
          --now.jobs;
          const Read& read = **result;
          if (read) {
            now.plain_offset += *read;
            sent_before_ += *read;
            now.plain->on_read(static_cast<uint32_t>(*read));
          } else {
            now.plain->on_failed(read.error());
          }
          carry_out(id, now);
          if (now.ended) on_ended(id);
        });
  } else if (auto* const next = std::get_if<PlainSending::WriteNext>(&action)) {
    if (options_.bytes_per_second == 0) return post_plain(id, stream, *next);
    stream.plain_post = *next;
  } else {
    const std::string why = std::get<PlainSending::Finished>(action).why_not;
    finish(stream, 1, why.empty() ? Verdict::kStored : Verdict::kFailed, why);
    stream.over = true;
    fabric_->end(id);
  }
}

}  // namespace verbena::transfer
