// SPDX-License-Identifier: Apache-2.0
// Bytes out and in.
#include <algorithm>
#include <cerrno>

#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

// A program that only writes hears of its peer's end so often.
constexpr auto kProgressEvery = std::chrono::milliseconds(1);

}  // namespace

int Stream::send_error() const {
  if (finished_) return -EPIPE;
  return error_ != 0 ? -error_ : -ECONNRESET;
}

int Stream::send_piece(Pieces& from, uint32_t bytes) {
  const uint32_t offset = send_->buffer_offset();
  const uint32_t first = std::min(bytes, sizes_.send_bytes - offset);
  from.copy_to(endpoint_->send_buffer() + offset, first);
  from.copy_to(endpoint_->send_buffer(), bytes - first);
  send_->fill_buffer(bytes);
  const SendFlow::Target target = send_->take(bytes);
  return -endpoint_->post_buffer(
      {.message = encode(Op::kData, bytes), .address = target.address, .key = target.key}, offset,
      bytes);
}

ssize_t Stream::send(Pieces& from, int flags, const sockaddr* to, socklen_t to_length) {
  if (to != nullptr || to_length != 0) return -EISCONN;
  const MutexLock lock(mutex_);
  const bool nonblocking = is_nonblocking(flags);
  const auto until = deadline_of(send_timeout_);
  if (const int error = await_connection(nonblocking, until); error != 0) return error;
  if (Clock::now() - progressed_ > kProgressEvery) progress();
  int error = mappings_untold_ ? tell_mappings(nonblocking, until) : 0;
  // The first piece leaves soon, the others are large: the copy of one overlaps with the way of
  // the one before.
  uint32_t most = kLowWater;
  const size_t wanted = from.left();
  while (error == 0 && from.left() != 0) {
    if (writable_ && !send_->can_send()) {
      error = wait(nonblocking, until, [&] {
        mutex_.assert_held();
        return !writable_ || send_->can_send();
      });
      if (error != 0) break;
    }
    if (!writable_) {
      error = send_error();
      break;
    }
    const auto bytes =
        static_cast<uint32_t>(std::min<size_t>(from.left(), std::min(most, send_->room())));
    most = std::min(2 * most, kMaxTransfer);
    error = send_piece(from, bytes);
    if (error != 0) break_off(ECONNRESET);
  }
  const size_t sent = wanted - from.left();
  return sent != 0 || error == 0 ? static_cast<ssize_t>(sent) : error;
}

ssize_t Stream::receive(Pieces& into, int flags, sockaddr* from, socklen_t* from_length) {
  const MutexLock lock(mutex_);
  const bool nonblocking = is_nonblocking(flags);
  const auto until = deadline_of(receive_timeout_);
  if (const int error = await_connection(nonblocking, until); error != 0) return error;
  int error = 0;
  const size_t wanted = into.left();
  while (into.left() != 0) {
    if (receive_->readable() == 0) {
      error = wait(nonblocking, until, [&] {
        mutex_.assert_held();
        return receive_->readable() != 0 || !readable_;
      });
      if (error != 0) break;
    }
    if (receive_->readable() == 0) {
      if (wanted == into.left()) error = -take_error();
      break;
    }
    const auto bytes = static_cast<uint32_t>(std::min<size_t>(into.left(), receive_->readable()));
    for (uint32_t copied = 0; copied < bytes;) {
      const ReceiveFlow::Piece piece = receive_->piece(copied);
      const uint32_t part = std::min(piece.bytes, bytes - copied);
      into.copy_from(endpoint_->receive_buffer() + piece.offset, part);
      copied += part;
    }
    if ((flags & MSG_PEEK) != 0) break;
    receive_->read(bytes);
    give_grants();
    if ((flags & MSG_WAITALL) == 0) break;
  }
  if (from != nullptr && from_length != nullptr) {
    (void)copy_name(rdma_get_peer_addr(id_), from, from_length);
  }
  const size_t got = wanted - into.left();
  return got != 0 || error == 0 ? static_cast<ssize_t>(got) : error;
}

}  // namespace verbena::rsocket
