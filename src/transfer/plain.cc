// SPDX-License-Identifier: Apache-2.0
#include "transfer/plain.h"

#include "transfer/path.h"

namespace verbena::transfer {

void PlainReceiving::on_immediate(uint32_t length, std::span<const uint8_t> buffer) {
  if (complete()) return;
  if (length > buffer.size()) return end("the sender says that it wrote more than there is room");
  const auto written = buffer.first(length);
  if (state_ == State::kName) {
    std::string name(text_of(written));
    if (!name.empty() && name.back() == '\0') name.pop_back();
    if (const char* const wrong = wrong_with_path(name)) {
      return end(std::string("the name ") + wrong);
    }
    state_ = State::kOpening;
    actions_.emplace_back(OpenIt{std::move(name)});
  } else if (state_ == State::kData) {
    if (length > max_file_bytes_ - bytes_) return end("the file is too large");
    bytes_ += length;
    state_ = length == 0 ? State::kClosing : State::kWriting;
    if (length == 0) {
      actions_.emplace_back(CloseIt{});
    } else {
      actions_.emplace_back(AppendIt{written});
    }
  } else {
    end("the sender writes before it was told to");
  }
}

void PlainReceiving::on_done(const std::string& why_not) {
  if (state_ == State::kEnded) return;
  if (!why_not.empty()) return end(why_not);
  if (state_ == State::kClosing) {
    state_ = State::kStored;
    actions_.emplace_back(Reply{{PlainMessage::Kind::kDone}});
  } else {
    state_ = State::kData;
    actions_.emplace_back(Reply{{PlainMessage::Kind::kReady}});
  }
}

void PlainReceiving::end(std::string why) {
  state_ = State::kEnded;
  actions_.emplace_back(End{std::move(why)});
}

void PlainSending::on_message(std::span<const uint8_t> bytes) {
  if (state_ == State::kOver) return;
  const auto message = decode_plain(bytes);
  if (!message) return on_failed("the receiver sends something that is not a message");
  using Kind = PlainMessage::Kind;
  if (state_ == State::kMemory && message->kind == Kind::kMemory) {
    if (name_.size() >= kMaxNameBytes) {
      return on_failed("its name is too long for a receiver that is not Verbena's");
    }
    address_ = message->address;
    rkey_ = message->rkey;
    state_ = State::kReady;
    actions_.emplace_back(WriteName{name_ + '\0', address_, rkey_});
  } else if (state_ == State::kReady && message->kind == Kind::kReady) {
    state_ = State::kReading;
    actions_.emplace_back(ReadNext{});
  } else if (state_ == State::kLast && message->kind == Kind::kDone) {
    state_ = State::kOver;
    actions_.emplace_back(Finished{});
  } else {
    on_failed("the receiver's messages are out of order");
  }
}

void PlainSending::on_read(uint32_t length) {
  if (state_ != State::kReading) return;
  state_ = length == 0 ? State::kLast : State::kReady;
  actions_.emplace_back(WriteNext{length, address_, rkey_});
}

void PlainSending::on_failed(const std::string& why) {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  actions_.emplace_back(Finished{why});
}

}  // namespace verbena::transfer
