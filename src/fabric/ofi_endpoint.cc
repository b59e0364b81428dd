// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_endpoint.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>

#include "fabric/ofi_sockets.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kApiVersion = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
// The protocol has so many bytes for a key.
constexpr size_t kKeyBytes = 4;

// Why a provider is not used, as libfabric writes its name; empty: it is.
std::string why_refused(std::string_view provider) {
  // They say they can do it, and hang or crash.
  const std::string_view core = provider.substr(0, provider.find(';'));
  if (core == "sockets" || core == "udp" || core == "UDP" || provider.contains(";ofi_rxd")) {
    return fmt::format("libfabric's provider {} is not supported: it hangs or crashes", provider);
  }
  // Its locks are in memory that both processes have: a peer that is killed with one of them stops
  // this process for good. For experiments only.
  if (core == "shm" && std::getenv("VERBENA_UNSAFE_SHM") == nullptr) {
    return "libfabric's provider shm is not supported: a client that is killed could stop the "
           "server. Between processes of one host, verbs uses shared memory";
  }
  return {};
}

}  // namespace

std::string OfiDomain::describe(std::string_view what, int64_t error) const {
  return fmt::format("libfabric: {}: {}", what, library_.strerror(static_cast<int>(-error)));
}

UniqueInfo OfiDomain::hints_for(const std::string& provider) const {
  UniqueInfo hints(library_.dupinfo(nullptr), {&library_});
  if (hints == nullptr) return hints;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_SAFE;  // memory is added by any thread
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->fabric_attr->prov_name = strdup(provider.c_str());  // freed with it
  return hints;
}

bool OfiDomain::uses_ip() const {
  const uint32_t format = info_->addr_format;
  return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

Result<void> OfiDomain::choose(const std::string& provider) {
  int error = 0;
  std::string why;  // the last one cannot be used
  // A provider of connected endpoints has the layer above it that makes them datagrams.
  for (const char* const layer : {"", ";ofi_rxm"}) {
    if (*layer != 0 && provider.contains(';')) continue;
    const UniqueInfo hints = hints_for(provider + layer);
    if (hints == nullptr) return fail(std::string("there is no memory"));
    // A domain for IPv6 takes addresses of both kinds.
    for (const uint32_t format : {uint32_t{FI_SOCKADDR_IN6}, uint32_t{FI_FORMAT_UNSPEC}}) {
      hints->addr_format = format;
      fi_info* found = nullptr;
      error = library_.getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &found);
      if (error != 0) continue;
      const UniqueInfo all(found, {&library_});
      for (const fi_info* one = found; one != nullptr; one = one->next) {
        // libfabric finds names in upper or lower case, and others by "^NAME": what it has found
        // counts, not what was asked for.
        if (auto refused = why_refused(one->fabric_attr->prov_name); !refused.empty()) {
          why = std::move(refused);
          continue;
        }
        info_ = UniqueInfo(library_.dupinfo(one), {&library_});
        if (info_ == nullptr) return fail(std::string("there is no memory"));
        const auto usable = check();
        if (usable) return {};
        why = usable.error();
      }
    }
  }
  if (!why.empty()) return fail(why);
  if (error == 0) error = -FI_ENODATA;
  return fail(describe(fmt::format("there is no provider {} that has reliable datagrams with RMA "
                                   "(fi_info, of Debian's package libfabric-bin, lists providers)",
                                   provider),
                       error));
}

Result<void> OfiDomain::check() const {
  if (!uses_ip() && info_->addr_format != FI_ADDR_STR) {
    return fail(
        fmt::format("libfabric's provider {} has addresses of an unknown kind", provider()));
  }
  if (!needs(FI_MR_PROV_KEY) && info_->domain_attr->mr_key_size < kKeyBytes) {
    return fail(
        fmt::format("libfabric's provider {} has memory keys that are too short", provider()));
  }
  return {};
}

Result<std::unique_ptr<OfiDomain>> OfiDomain::open(const OfiLibrary& library,
                                                   const std::string& provider) {
  std::unique_ptr<OfiDomain> opened(new OfiDomain(library));
  if (const auto done = opened->choose(provider); !done) return fail(done.error());
  fid_fabric* fabric = nullptr;
  if (const int error = library.fabric(opened->info_->fabric_attr, &fabric, nullptr); error != 0) {
    return fail(opened->describe("cannot open the fabric", error));
  }
  opened->fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  if (const int error = fi_domain(fabric, opened->info_.get(), &domain, nullptr); error != 0) {
    return fail(opened->describe("cannot open the domain", error));
  }
  opened->domain_.reset(domain);
  fi_cq_attr attr{};
  attr.size = 1;
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = FI_WAIT_FD;
  fid_cq* queue = nullptr;
  if (fi_cq_open(domain, &attr, &queue, nullptr) == 0) {
    const UniqueFid<fid_cq> closing(queue);
    opened->has_descriptors_ = true;
  }
  return opened;
}

Result<fi_info*> OfiDomain::info_at(const std::string& host) {
  constexpr size_t kMaxHosts = 32;
  if (!uses_ip()) return info_.get();
  if (const auto known = hosts_.find(host); known != hosts_.end()) return known->second.get();
  const UniqueInfo hints = hints_for(provider());
  if (hints == nullptr) return fail(std::string("there is no memory"));
  fi_info* found = nullptr;
  const int error = library_.getinfo(kApiVersion, host.c_str(), nullptr, FI_SOURCE | FI_NUMERICHOST,
                                     hints.get(), &found);
  if (error != 0) {
    return fail(describe(fmt::format("{} has no endpoints at {}", provider(), host), error));
  }
  if (hosts_.size() >= kMaxHosts) hosts_.clear();
  return hosts_.emplace(host, UniqueInfo(found, {&library_})).first->second.get();
}

Result<std::unique_ptr<OfiEndpoint>> OfiEndpoint::open(OfiDomain& domain, const std::string& node,
                                                       size_t completions) {
  const auto info = domain.info_at(node);
  if (!info) return fail(info.error());
  std::unique_ptr<OfiEndpoint> opened(new OfiEndpoint(domain));
  const auto failed = [&](const char* what, int error) {
    return fail(domain.describe(what, error));
  };

  fi_av_attr av_attr{};
  av_attr.type = FI_AV_UNSPEC;
  av_attr.count = 1;
  fid_av* av = nullptr;
  if (const int error = fi_av_open(domain.domain(), &av_attr, &av, nullptr); error != 0) {
    return failed("cannot make an address vector", error);
  }
  opened->av_.reset(av);

  fi_cq_attr cq_attr{};
  cq_attr.size = completions;
  cq_attr.format = FI_CQ_FORMAT_MSG;
  cq_attr.wait_obj = domain.has_descriptors() ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cq* cq = nullptr;
  if (const int error = fi_cq_open(domain.domain(), &cq_attr, &cq, nullptr); error != 0) {
    return failed("cannot make a completion queue", error);
  }
  opened->cq_.reset(cq);
  if (domain.has_descriptors()) {
    if (const int error = fi_control(&cq->fid, FI_GETWAIT, &opened->fd_); error != 0) {
      return failed("a completion queue has no descriptor", error);
    }
  }

  fid_ep* ep = nullptr;
  if (const int error = fi_endpoint(domain.domain(), *info, &ep, nullptr); error != 0) {
    return failed("cannot make an endpoint", error);
  }
  opened->ep_.reset(ep);
  opened->address_format_ = (*info)->addr_format;
  int error = 0;
  if (!domain.uses_ip()) {
    std::string name = node;
    error = fi_setname(&ep->fid, name.data(), name.size() + 1);
  }
  if (error == 0) error = fi_ep_bind(ep, &av->fid, 0);
  if (error == 0) error = fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV);
  if (error == 0) error = fi_enable(ep);
  if (error != 0) return failed("cannot enable an endpoint", error);

  size_t bytes = 256;
  opened->address_.resize(bytes);
  error = fi_getname(&ep->fid, opened->address_.data(), &bytes);
  if (error != 0 || bytes > opened->address_.size()) {
    return failed("an endpoint has no address", error);
  }
  opened->address_.resize(bytes);
  return opened;
}

OfiEndpoint::~OfiEndpoint() {
  const UnansweredSockets unanswered(domain_.uses_ip() ? address_ : std::vector<uint8_t>());
  ep_.reset();
  unanswered.close_forgotten();
}

Result<void> OfiEndpoint::set_peer(std::span<const uint8_t> address) {
  const int done = fi_av_insert(av_.get(), address.data(), 1, &peer_, 0, nullptr);
  if (done != 1)
    return fail(domain_.describe("the peer's address is not valid", -FI_EADDRNOTAVAIL));
  peer_address_.assign(address.begin(), address.end());
  return {};
}

void OfiEndpoint::disconnect() const {
  if (domain_.uses_ip() && !peer_address_.empty()) shut_down_sockets(address_, peer_address_);
}

bool OfiEndpoint::has_more() const {
  pollfd descriptor{fd_, POLLIN, 0};
  return fd_ >= 0 && ::poll(&descriptor, 1, 0) > 0;
}

bool OfiEndpoint::may_sleep() const {
  fid* const queue = &cq_->fid;
  std::array<fid*, 1> all{queue};
  return fi_trywait(domain_.fabric(), all.data(), 1) == 0;
}

}  // namespace verbena::fabric
