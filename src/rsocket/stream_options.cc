// SPDX-License-Identifier: Apache-2.0
// rsetsockopt() and rgetsockopt() of streams: what rsocket(7) names, and time limits. What is not
// here is EOPNOTSUPP.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sys/time.h>

#include "rsocket/option_values.h"
#include "rsocket/stream.h"

namespace verbena::rsocket {

int Stream::set_option(int level, int name, const void* value, socklen_t length) {
  const MutexLock lock(mutex_);
  switch (level) {
    case SOL_SOCKET:   return set_socket_option(name, value, length);
    case IPPROTO_TCP:  return set_tcp_option(name, value, length);
    case IPPROTO_IPV6: return set_ipv6_option(name, value, length);
    case SOL_RDMA:     return set_rdma_option(name, value, length);
    default:           return -EOPNOTSUPP;
  }
}

int Stream::set_socket_option(int name, const void* value, socklen_t length) {
  if (name == SO_RCVTIMEO) return read_time(value, length, receive_timeout_);
  if (name == SO_SNDTIMEO) return read_time(value, length, send_timeout_);
  if (name == SO_LINGER) {
    const auto given = read_value<linger>(value, length);
    if (!given) return -EINVAL;
    options_.linger = given->l_onoff != 0;
    options_.linger_seconds = std::max(given->l_linger, 0);
    return 0;
  }
  const auto given = read_value<int>(value, length);
  if (!given) return -EINVAL;
  switch (name) {
    case SO_REUSEADDR: {
      int on = *given != 0 ? 1 : 0;
      // Of a port that is bound already nothing changes.
      if (phase_ == Phase::kIdle &&
          rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) != 0) {
        return -errno;
      }
      options_.reuse_address = on != 0;
      return 0;
    }
    // As the kernel does it, twice what was asked for; and no more once there are buffers.
    case SO_RCVBUF:
      if (endpoint_ == nullptr) sizes_.receive_bytes = twice(*given);
      return 0;
    case SO_SNDBUF:
      if (endpoint_ == nullptr) sizes_.send_bytes = twice(*given);
      return 0;
    // The device looks after peers that are silent, asked or not (docs/connections.md).
    case SO_KEEPALIVE: options_.keep_alive = *given != 0; return 0;
    case SO_OOBINLINE: options_.out_of_band_inline = *given != 0; return 0;
    default:           return -EOPNOTSUPP;
  }
}

int Stream::set_tcp_option(int name, const void* value, socklen_t length) {
  const auto given = read_value<int>(value, length);
  if (!given) return -EINVAL;
  switch (name) {
    case TCP_NODELAY: options_.no_delay = *given != 0; return 0;
    case TCP_KEEPIDLE:
      if (*given <= 0) return -EINVAL;
      options_.keep_idle_seconds = *given;
      return 0;
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
    case TCP_MAXSEG:    return 0;
    default:            return -EOPNOTSUPP;
  }
}

int Stream::set_ipv6_option(int name, const void* value, socklen_t length) {
  auto given = read_value<int>(value, length);
  if (!given) return -EINVAL;
  if (name != IPV6_V6ONLY) return -EOPNOTSUPP;
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &*given, sizeof *given) != 0) {
    return -errno;
  }
  options_.ipv6_only = *given != 0;
  return 0;
}

int Stream::set_rdma_option(int name, const void* value, socklen_t length) {
  if (phase_ >= Phase::kConnecting) return -EINVAL;
  if (name == RDMA_ROUTE) return -EOPNOTSUPP;  // InfiniBand's own
  const auto given = read_value<uint32_t>(value, length);
  if (!given) return -EINVAL;
  switch (name) {
    case RDMA_SQSIZE:    sizes_.send_places = *given; return 0;
    case RDMA_RQSIZE:    sizes_.receive_places = *given; return 0;
    case RDMA_INLINE:    sizes_.inline_bytes = std::min(*given, kMostInline); return 0;
    case RDMA_IOMAPSIZE: sizes_.iomap_entries = from_scale(to_scale(*given)); return 0;
    default:             return -EOPNOTSUPP;
  }
}

int Stream::get_option(int level, int name, void* value, socklen_t* length) {
  const MutexLock lock(mutex_);
  switch (level) {
    case SOL_SOCKET:  return get_socket_option(name, value, length);
    case IPPROTO_TCP: return get_tcp_option(name, value, length);
    case SOL_RDMA:    return get_rdma_option(name, value, length);
    case IPPROTO_IPV6:
      if (name == IPV6_V6ONLY) return write_value(int{options_.ipv6_only}, value, length);
      return -EOPNOTSUPP;
    default: return -EOPNOTSUPP;
  }
}

int Stream::get_socket_option(int name, void* value, socklen_t* length) {
  switch (name) {
    case SO_REUSEADDR: return write_value(int{options_.reuse_address}, value, length);
    case SO_KEEPALIVE: return write_value(int{options_.keep_alive}, value, length);
    case SO_OOBINLINE: return write_value(int{options_.out_of_band_inline}, value, length);
    case SO_RCVBUF:    return write_value(static_cast<int>(sizes_.receive_bytes), value, length);
    case SO_SNDBUF:    return write_value(static_cast<int>(sizes_.send_bytes), value, length);
    case SO_LINGER:
      return write_value(linger{options_.linger ? 1 : 0, options_.linger_seconds}, value, length);
    case SO_ERROR:      progress(); return write_value(take_error(), value, length);
    case SO_RCVTIMEO:   return write_value(time_of(receive_timeout_), value, length);
    case SO_SNDTIMEO:   return write_value(time_of(send_timeout_), value, length);
    case SO_TYPE:       return write_value(type(), value, length);
    case SO_DOMAIN:     return write_value(domain(), value, length);
    case SO_PROTOCOL:   return write_value(int{IPPROTO_TCP}, value, length);
    case SO_ACCEPTCONN: return write_value(phase_ == Phase::kListening ? 1 : 0, value, length);
    default:            return -EOPNOTSUPP;
  }
}

int Stream::get_tcp_option(int name, void* value, socklen_t* length) {
  constexpr int kUsualPayload = 2048;
  switch (name) {
    case TCP_NODELAY:   return write_value(int{options_.no_delay}, value, length);
    case TCP_KEEPIDLE:  return write_value(options_.keep_idle_seconds, value, length);
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL: return write_value(1, value, length);
    case TCP_MAXSEG:    {
      const bool known = id_->route.num_paths > 0;
      return write_value(known ? 128 << id_->route.path_rec->mtu : kUsualPayload, value, length);
    }
    default: return -EOPNOTSUPP;
  }
}

int Stream::get_rdma_option(int name, void* value, socklen_t* length) {
  switch (name) {
    case RDMA_SQSIZE:    return write_value(static_cast<int>(sizes_.send_places), value, length);
    case RDMA_RQSIZE:    return write_value(static_cast<int>(sizes_.receive_places), value, length);
    case RDMA_INLINE:    return write_value(static_cast<int>(sizes_.inline_bytes), value, length);
    case RDMA_IOMAPSIZE: return write_value(int{sizes_.iomap_entries}, value, length);
    default:             return -EOPNOTSUPP;
  }
}

}  // namespace verbena::rsocket
