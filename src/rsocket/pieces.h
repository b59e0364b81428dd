// SPDX-License-Identifier: Apache-2.0
// The buffers of one call, as one run of bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <sys/uio.h>

namespace verbena::rsocket {

class Pieces {
 public:
  Pieces(const iovec* first, size_t count) : at_(first), end_(first + count) {
    for (const iovec* piece = at_; piece != end_; ++piece) left_ += piece->iov_len;
  }

  [[nodiscard]] size_t left() const { return left_; }

  // At most left().
  void copy_to(uint8_t* to, size_t bytes) {
    each(bytes, [&](uint8_t* from, size_t part) {
      std::memcpy(to, from, part);
      to += part;
    });
  }
  void copy_from(const uint8_t* from, size_t bytes) {
    each(bytes, [&](uint8_t* to, size_t part) {
      std::memcpy(to, from, part);
      from += part;
    });
  }

 private:
  template <typename Use>
  void each(size_t bytes, Use use) {
    left_ -= bytes;
    while (bytes > 0) {
      const size_t part = std::min(bytes, at_->iov_len - offset_);
      if (part > 0) use(static_cast<uint8_t*>(at_->iov_base) + offset_, part);
      bytes -= part;
      offset_ += part;
      if (offset_ == at_->iov_len) {
        ++at_;
        offset_ = 0;
      }
    }
  }

  const iovec* at_;
  const iovec* end_;
  size_t offset_ = 0;
  size_t left_ = 0;
};

}  // namespace verbena::rsocket
