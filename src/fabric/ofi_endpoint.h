// SPDX-License-Identifier: Apache-2.0
// An endpoint of libfabric with its completion queue and its one peer. Each connection has one of
// its own: when it is closed, nothing of the connection can touch memory any more, as with a queue
// pair that was destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "fabric/fabric.h"
#include "fabric/ofi_library.h"

namespace verbena::fabric {

// Closes an object of libfabric.
struct CloseFid {
  template <typename Object>
  void operator()(Object* object) const {
    static_cast<void>(fi_close(&object->fid));
  }
};
template <typename Object>
using UniqueFid = std::unique_ptr<Object, CloseFid>;

struct FreeInfo {
  const OfiLibrary* library = nullptr;
  void operator()(fi_info* info) const { library->freeinfo(info); }
};
using UniqueInfo = std::unique_ptr<fi_info, FreeInfo>;

// A provider that can do what the fabric needs, with one domain.
class OfiDomain {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OfiDomain>> open(const OfiLibrary& library,
                                                               const std::string& provider);

  [[nodiscard]] const OfiLibrary& library() const { return library_; }
  [[nodiscard]] const fi_info& info() const { return *info_; }
  [[nodiscard]] fid_domain* domain() const { return domain_.get(); }
  [[nodiscard]] fid_fabric* fabric() const { return fabric_.get(); }
  // "tcp;ofi_rxm"
  [[nodiscard]] std::string provider() const { return info_->fabric_attr->prov_name; }
  [[nodiscard]] bool needs(uint64_t memory_mode) const {
    return (static_cast<uint64_t>(info_->domain_attr->mr_mode) & memory_mode) != 0;
  }
  // Completion queues have a descriptor to sleep on.
  [[nodiscard]] bool has_descriptors() const { return has_descriptors_; }
  // Addresses are IP addresses with ports; otherwise names.
  [[nodiscard]] bool uses_ip() const;
  // "cannot do it: Invalid argument"; `error` is what libfabric returned, negative.
  [[nodiscard]] std::string describe(std::string_view what, int64_t error) const;
  // For an endpoint at this IP address; any, if addresses are names.
  [[nodiscard]] Result<fi_info*> info_at(const std::string& host);

 private:
  explicit OfiDomain(const OfiLibrary& library) : library_(library) {}
  [[nodiscard]] UniqueInfo hints_for(const std::string& provider) const;
  [[nodiscard]] Result<void> choose(const std::string& provider);
  [[nodiscard]] Result<void> check() const;

  const OfiLibrary& library_;
  UniqueInfo info_;
  std::map<std::string, UniqueInfo> hosts_;  // of the last ones: looking them up takes long
  UniqueFid<fid_fabric> fabric_;
  UniqueFid<fid_domain> domain_;
  bool has_descriptors_ = false;
};

class OfiEndpoint {
 public:
  // Whose name is `node`, or at that IP address, with room for so many completions.
  [[nodiscard]] static Result<std::unique_ptr<OfiEndpoint>> open(OfiDomain& domain,
                                                                 const std::string& node,
                                                                 size_t completions);
  OfiEndpoint(const OfiEndpoint&) = delete;
  OfiEndpoint& operator=(const OfiEndpoint&) = delete;
  ~OfiEndpoint();
  // As the provider has it, to be told to the peer.
  [[nodiscard]] const std::vector<uint8_t>& address() const { return address_; }
  [[nodiscard]] uint32_t address_format() const { return address_format_; }
  [[nodiscard]] Result<void> set_peer(std::span<const uint8_t> address);
  // Cuts it off from the peer, whatever that does: completions of what is under way follow. Where
  // the provider does not use sockets, nothing happens.
  void disconnect() const;

  [[nodiscard]] fid_ep* ep() const { return ep_.get(); }
  [[nodiscard]] fid_cq* cq() const { return cq_.get(); }
  [[nodiscard]] fi_addr_t peer() const { return peer_; }
  // To sleep on, after may_sleep(); -1: there is none.
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool may_sleep() const;
  // By the descriptor, there is more to be done now; not all of it is told by completions.
  [[nodiscard]] bool has_more() const;

 private:
  explicit OfiEndpoint(const OfiDomain& domain) : domain_(domain) {}

  const OfiDomain& domain_;
  UniqueFid<fid_av> av_;
  UniqueFid<fid_cq> cq_;
  UniqueFid<fid_ep> ep_;  // closed first
  std::vector<uint8_t> address_;
  std::vector<uint8_t> peer_address_;
  uint32_t address_format_ = 0;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  int fd_ = -1;
};

}  // namespace verbena::fabric
