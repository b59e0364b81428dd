// SPDX-License-Identifier: Apache-2.0
#include "device/gid_table.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "wire/packet.h"
#include "wire/packet_tag.h"

namespace verbena::device {
namespace {

using transport::Mtu;

// Around a full payload: IPv6 and UDP headers, BTH, XRCETH, RETH and immediate data, the ICRC, a
// tag. 4200 bytes, which is what vendors tell to set, carry 4096.
constexpr uint32_t kAroundPayload =
    40 + 8 + 12 + 4 + 16 + 4 + wire::kIcrcBytes + wire::PacketTag::kBytes;

[[nodiscard]] uint32_t mtu_of(int fd, const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  return ::ioctl(fd, SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 1500;
}

[[nodiscard]] bool to_gid(const sockaddr* address, wire::Gid& gid) {
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    const auto* const p = reinterpret_cast<const uint8_t*>(&in.sin_addr);
    gid = wire::Gid::from_ipv4(p[0], p[1], p[2], p[3]);
    return true;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in6;
    std::memcpy(&in6, address, sizeof in6);
    std::memcpy(gid.bytes.data(), &in6.sin6_addr, 16);
    return true;
  }
  return false;
}

[[nodiscard]] std::vector<GidEntry> read_interfaces(const AddressChoice& offered) {
  std::vector<GidEntry> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    GidEntry entry;
    if (!to_gid(at->ifa_addr, entry.gid) || !offered.place_of(entry.gid, at->ifa_name)) continue;
    entry.interface = at->ifa_name;
    entry.interface_index = ::if_nametoindex(at->ifa_name);
    entry.loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    entry.mtu_bytes = mtu_of(fd.get(), at->ifa_name);
    found.push_back(entry);
  }
  ::freeifaddrs(list);
  // As they were asked for; then interfaces of the network before loopback, IPv4 before IPv6: the
  // first entries are what programs want.
  std::ranges::sort(found, {}, [&](const GidEntry& entry) {
    return std::tuple(offered.place_of(entry.gid, entry.interface), entry.loopback,
                      entry.interface_index, !entry.gid.is_ipv4(), entry.gid);
  });
  return found;
}

}  // namespace

Mtu path_mtu_for(uint32_t interface_mtu_bytes) {
  for (const Mtu mtu : {Mtu::k4096, Mtu::k2048, Mtu::k1024, Mtu::k512}) {
    if (transport::mtu_bytes(mtu) + kAroundPayload <= interface_mtu_bytes) return mtu;
  }
  return Mtu::k256;
}

bool GidTable::refresh() {
  const std::vector<GidEntry> found = read_interfaces(options_.offered);
  const MutexLock lock(mutex_);
  bool changed = false;
  for (GidEntry& entry : entries_) {
    if (entry.gid.is_zero()) continue;
    const auto same = std::ranges::find(found, entry.gid, &GidEntry::gid);
    changed |= same == found.end();
    entry = same == found.end() ? GidEntry{} : *same;
  }
  for (const GidEntry& entry : found) {
    if (std::ranges::find(entries_, entry.gid, &GidEntry::gid) != entries_.end()) continue;
    changed |= place(entry);
  }
  return changed;
}

bool GidTable::place(const GidEntry& entry) {
  const auto free = [this](size_t i) VERBENA_REQUIRES(mutex_) { return entries_[i].gid.is_zero(); };
  const size_t most = kMaxEntries / times_shown();
  size_t index = 0;
  while (index < entries_.size() && !(free(index) && last_[index] == entry.gid)) ++index;
  if (index == most) {
    index = 0;
    while (index < entries_.size() && !free(index)) ++index;
    if (index == most) return false;
  }
  if (index == entries_.size()) {
    entries_.emplace_back();
    last_.emplace_back();
  }
  entries_[index] = entry;
  last_[index] = entry.gid;
  return true;
}

GidEntry GidTable::shown(uint32_t index) const {
  GidEntry entry = entries_[index / times_shown()];
  entry.shown_as_v1 = options_.with_v1 && index % 2 == 0;
  return entry;
}

std::vector<GidEntry> GidTable::entries() const {
  const MutexLock lock(mutex_);
  std::vector<GidEntry> all;
  for (uint32_t i = 0; i < entries_.size() * times_shown(); ++i) all.push_back(shown(i));
  return all;
}

std::optional<GidEntry> GidTable::at(uint32_t index) const {
  const MutexLock lock(mutex_);
  if (index / times_shown() >= entries_.size()) return std::nullopt;
  GidEntry entry = shown(index);
  if (entry.gid.is_zero()) return std::nullopt;
  return entry;
}

std::optional<uint32_t> GidTable::find(const wire::Gid& gid) const {
  if (gid.is_zero()) return std::nullopt;
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(entries_, gid, &GidEntry::gid);
  if (found == entries_.end()) return std::nullopt;
  const auto index = static_cast<uint32_t>(found - entries_.begin());
  return index * times_shown() + (times_shown() - 1);
}

Mtu GidTable::active_mtu() const {
  const MutexLock lock(mutex_);
  Mtu least = options_.mtu_at_most;
  for (const GidEntry& entry : entries_) {
    if (!entry.gid.is_zero()) least = std::min(least, path_mtu_for(entry.mtu_bytes));
  }
  return least;
}

}  // namespace verbena::device
