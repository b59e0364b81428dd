// SPDX-License-Identifier: Apache-2.0
// What the peer has said, what was sent, and what is to be granted.
#include <array>
#include <cerrno>

#include <arpa/inet.h>

#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

// Of a connection little is heard but by its messages; a thread that sleeps hears all.
constexpr auto kEventsEvery = std::chrono::milliseconds(10);

}  // namespace

void Stream::progress() {
  progressed_ = Clock::now();
  bool changed = false;
  if (phase_ != Phase::kConnected || progressed_ - events_looked_at_ > kEventsEvery) {
    changed = take_events();
  }
  if (endpoint_ != nullptr && phase_ >= Phase::kConnected) changed |= take_completions();
  give_grants();
  if (changed) ring();
}

bool Stream::take_completions() {
  std::array<ibv_wc, 16> completions;
  uint32_t received = 0;
  bool any = false;
  int count = 0;
  while ((count = endpoint_->poll(completions)) > 0) {
    any = true;
    for (const ibv_wc& completion : std::span(completions).first(static_cast<size_t>(count))) {
      if (completion.wr_id != kReceiveMark) {
        on_sent(completion);
      } else if (completion.status == IBV_WC_SUCCESS) {
        ++received;
        if (phase_ == Phase::kConnected && !on_message(completion)) {
          break_off(EPROTO);
          (void)rdma_disconnect(id_);
        }
      } else if (phase_ == Phase::kConnected) {
        break_off(ECONNRESET);
      }
    }
  }
  if (phase_ == Phase::kConnected && received != 0 && endpoint_->post_receives(received) != 0) {
    break_off(ECONNRESET);
  }
  return any;
}

// Whether it was one that may come now.
bool Stream::on_message(const ibv_wc& completion) {
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return false;
  const auto message = decode(ntohl(completion.imm_data));
  if (!message) return false;
  const uint32_t written = completion.byte_len;
  switch (message->op) {
    case Op::kData:  return written == message->data && receive_->arrived(written);
    case Op::kGrant: {
      std::optional<Entry> half;
      if (written == kEntryBytes) {
        half = endpoint_->list_entry(own_entry_);
        own_entry_ = (own_entry_ + 1) % kListEntries;
      } else if (written != 0) {
        return false;
      }
      return send_->granted(static_cast<uint16_t>(message->data), half);
    }
    case Op::kIomap:
      if (message->data >= peer_mappings_.size() || written != kMappingBytes) return false;
      peer_mappings_[message->data] = endpoint_->mapping(message->data);
      return receive_->mapping_arrived();
    case Op::kControl: on_control(static_cast<Control>(message->data)); return written == 0;
    case Op::kDirect:  break;
  }
  return false;
}

void Stream::on_control(Control control) {
  if (control == Control::kKeepalive) return;
  readable_ = false;
  if (control == Control::kShutdown && writable_) return;
  writable_ = false;
  phase_ = Phase::kEnded;
}

void Stream::on_sent(const ibv_wc& completion) {
  const Message message = split(static_cast<uint32_t>(completion.wr_id));
  send_->completed(message);
  if (completion.status == IBV_WC_SUCCESS || phase_ != Phase::kConnected) return;
  break_off(ECONNRESET);
}

void Stream::give_grants() {
  while (phase_ == Phase::kConnected && receive_->owes_grant() && send_->can_control()) {
    const ReceiveFlow::Grant grant = receive_->grant();
    send_->take_control();
    Endpoint::Write write{.message = encode(Op::kGrant, grant.limit)};
    int error = 0;
    if (grant.half_offset) {
      const EntryBytes entry =
          encode(endpoint_->grant_at(*grant.half_offset, receive_->half()), peer_.order);
      write.address = peer_.list.address + uint64_t{remote_entry_} * kEntryBytes;
      write.key = peer_.list.key;
      remote_entry_ = (remote_entry_ + 1) % peer_.list.length;
      error = endpoint_->post_inline(write, entry);
    } else {
      error = endpoint_->post_inline(write, {});
    }
    if (error != 0) break_off(ECONNRESET);
  }
}

int Stream::send_control(Control control) {
  send_->take_control();
  return -endpoint_->post_inline({.message = encode(control)}, {});
}

short Stream::state_of(short events) const {
  constexpr short kIn = POLLIN | POLLRDNORM;
  constexpr short kOut = POLLOUT | POLLWRNORM;
  short state = 0;
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kBound:
    case Phase::kConnecting:
    case Phase::kAccepting:  return 0;
    case Phase::kListening:  return requests_.empty() ? short{0} : static_cast<short>(events & kIn);
    case Phase::kRefused:    return static_cast<short>((events & (kIn | kOut)) | POLLERR | POLLHUP);
    case Phase::kConnected:  break;
    case Phase::kEnded:      state = POLLHUP; break;
    case Phase::kBroken:     state = error_ != 0 ? POLLHUP | POLLERR : POLLHUP; break;
  }
  if (!receive_) return state;  // was listening
  // Of the end is told when all that came before was read: programs (rstream) stop at the word.
  if (receive_->readable() != 0) state = 0;
  if (!readable_) state |= static_cast<short>(events & (kIn | POLLRDHUP));
  if (receive_->readable() != 0) state |= static_cast<short>(events & kIn);
  if (!writable_ || send_->can_send()) state |= static_cast<short>(events & kOut);
  return state;
}

void Stream::arm() {
  if (endpoint_ != nullptr) endpoint_->arm();
}

SleepSet Stream::sleep_set() const {
  SleepSet set{};
  set[0] = {
      .fd = endpoint_ != nullptr ? endpoint_->event_fd() : -1, .events = POLLIN, .revents = 0};
  set[1] = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
  return set;
}

void Stream::woken(const SleepSet& set) {
  if (set[0].revents != 0 && endpoint_ != nullptr) {
    endpoint_->take_event();
    ring();
  }
  if (set[1].revents != 0 && take_events()) ring();
}

}  // namespace verbena::rsocket
