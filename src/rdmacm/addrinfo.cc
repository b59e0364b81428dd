// SPDX-License-Identifier: Apache-2.0
// rdma_getaddrinfo(): getaddrinfo(), with what RDMA adds. There is no AF_IB and there are no routes
// to look up: the kernel's are used when a connection is made.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "base/c_interface.h"
#include "rdmacm/address.h"
#include "rdmacm/failure.h"

namespace verbena::rdmacm {
namespace {

// A list in the program's hands, which rdma_freeaddrinfo() ends.
struct Freed {
  void operator()(rdma_addrinfo* list) const { rdma_freeaddrinfo(list); }
};
using Found = std::unique_ptr<rdma_addrinfo, Freed>;

[[nodiscard]] void* copy_bytes(const void* from, size_t length) {
  void* const copy = std::malloc(length);
  if (copy == nullptr) throw std::bad_alloc();
  return std::memcpy(copy, from, length);
}

void set_address(sockaddr*& place, socklen_t& length, const sockaddr* from, socklen_t bytes) {
  std::free(place);
  place = static_cast<sockaddr*>(copy_bytes(from, bytes));
  length = bytes;
}

[[nodiscard]] bool is_datagram(const rdma_addrinfo& hints) {
  return hints.ai_qp_type == IBV_QPT_UD ||
         (hints.ai_qp_type == 0 &&
          (hints.ai_port_space == RDMA_PS_UDP || hints.ai_port_space == RDMA_PS_IPOIB));
}

// Where only one of queue pair type and port space is given, the other follows.
void complete(rdma_addrinfo& found) {
  const bool datagram = is_datagram(found);
  if (found.ai_qp_type == 0) found.ai_qp_type = datagram ? IBV_QPT_UD : IBV_QPT_RC;
  if (found.ai_port_space == 0) found.ai_port_space = datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
}

[[nodiscard]] int flags_of(const rdma_addrinfo& hints) {
  int flags = 0;
  if ((hints.ai_flags & RAI_PASSIVE) != 0) flags |= AI_PASSIVE;
  if ((hints.ai_flags & RAI_NUMERICHOST) != 0) flags |= AI_NUMERICHOST;
  return flags;
}

// What a name stands for: an entry for each of its addresses. 0, or a code of getaddrinfo().
[[nodiscard]] int look_up(const char* node, const char* service, const rdma_addrinfo& hints,
                          Found& list) {
  addrinfo wish{};
  wish.ai_flags = flags_of(hints);
  wish.ai_family = hints.ai_family;
  wish.ai_socktype = is_datagram(hints) ? SOCK_DGRAM : SOCK_STREAM;
  addrinfo* all = nullptr;
  if (const int code = ::getaddrinfo(node, service, &wish, &all); code != 0) return code;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(all, &::freeaddrinfo);
  rdma_addrinfo* last = nullptr;
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    auto* const entry = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
    if (entry == nullptr) throw std::bad_alloc();
    if (last == nullptr) list.reset(entry);
    if (last != nullptr) last->ai_next = entry;
    last = entry;
    entry->ai_flags = hints.ai_flags;
    entry->ai_family = one->ai_family;
    entry->ai_qp_type = hints.ai_qp_type;
    entry->ai_port_space = hints.ai_port_space;
    complete(*entry);
    if ((hints.ai_flags & RAI_PASSIVE) != 0) {
      set_address(entry->ai_src_addr, entry->ai_src_len, one->ai_addr, one->ai_addrlen);
    } else {
      set_address(entry->ai_dst_addr, entry->ai_dst_len, one->ai_addr, one->ai_addrlen);
    }
    if (one->ai_canonname != nullptr) {
      char*& name =
          (hints.ai_flags & RAI_PASSIVE) != 0 ? entry->ai_src_canonname : entry->ai_dst_canonname;
      name = static_cast<char*>(copy_bytes(one->ai_canonname, std::strlen(one->ai_canonname) + 1));
    }
  }
  return list != nullptr ? 0 : EAI_NONAME;
}

// The hints alone.
[[nodiscard]] Found repeat(const rdma_addrinfo& hints) {
  Found found(static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo))));
  if (found == nullptr) throw std::bad_alloc();
  found->ai_flags = hints.ai_flags;
  found->ai_family = hints.ai_family;
  found->ai_qp_type = hints.ai_qp_type;
  found->ai_port_space = hints.ai_port_space;
  complete(*found);
  if (hints.ai_dst_addr != nullptr && hints.ai_dst_len != 0) {
    set_address(found->ai_dst_addr, found->ai_dst_len, hints.ai_dst_addr, hints.ai_dst_len);
  }
  return found;
}

// The source: as the hints have it, else as the kernel would choose.
void add_source(rdma_addrinfo& found, const rdma_addrinfo& hints) {
  if (found.ai_src_len != 0) return;
  if (hints.ai_src_addr != nullptr && hints.ai_src_len != 0) {
    set_address(found.ai_src_addr, found.ai_src_len, hints.ai_src_addr, hints.ai_src_len);
    return;
  }
  const auto destination = Address::read(found.ai_dst_addr);
  Route route;
  if (!destination || find_route(std::nullopt, *destination, route) != 0) return;
  set_address(found.ai_src_addr, found.ai_src_len, route.source.raw(), route.source.length());
}

[[nodiscard]] int find(const char* node, const char* service, const rdma_addrinfo* given,
                       rdma_addrinfo** out) {
  if (out == nullptr || (node == nullptr && service == nullptr && given == nullptr)) {
    return answer(EINVAL);
  }
  rdma_addrinfo hints{};
  if (given != nullptr) hints = *given;
  constexpr int kKnown = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;
  if ((hints.ai_flags & ~kKnown) != 0) return EAI_BADFLAGS;
  if (hints.ai_family != AF_UNSPEC && hints.ai_family != AF_INET && hints.ai_family != AF_INET6) {
    return EAI_FAMILY;
  }
  Found found;
  if (node != nullptr || service != nullptr) {
    if (const int code = look_up(node, service, hints, found); code != 0) return code;
  } else {
    found = repeat(hints);
  }
  for (rdma_addrinfo* one = found.get(); one != nullptr; one = one->ai_next)
    add_source(*one, hints);
  *out = found.release();
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_getaddrinfo(const char* node, const char* service,
                                    const rdma_addrinfo* hints, rdma_addrinfo** found) {
  try {
    return find(node, service, hints, found);
  } catch (const std::bad_alloc&) {
    return EAI_MEMORY;
  }
}

VERBENA_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* list) {
  while (list != nullptr) {
    rdma_addrinfo* const next = list->ai_next;
    std::free(list->ai_src_addr);
    std::free(list->ai_dst_addr);
    std::free(list->ai_src_canonname);
    std::free(list->ai_dst_canonname);
    std::free(list->ai_route);
    std::free(list->ai_connect);
    std::free(list);
    list = next;
  }
}
