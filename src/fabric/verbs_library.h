// SPDX-License-Identifier: Apache-2.0
// libibverbs and librdmacm, loaded at run time: the built-in ones, or the system's. One binary
// serves both; a process uses one of them.
#pragma once

#include <string>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "fabric/fabric.h"

#undef ibv_reg_mr  // a macro that wants the library at link time

namespace verbena::fabric {

// Calls that need the library; those that go through an object of it do not.
struct VerbsLibrary {
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int);
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_comp_channel) create_comp_channel;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_get_cq_event) get_cq_event;
  decltype(&::ibv_ack_cq_events) ack_cq_events;
  decltype(&::ibv_create_srq) create_srq;
  decltype(&::ibv_destroy_srq) destroy_srq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_query_device) query_device;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_wc_status_str) wc_status_str;

  decltype(&::rdma_get_devices) get_devices;
  decltype(&::rdma_free_devices) free_devices;
  decltype(&::rdma_create_event_channel) create_event_channel;
  decltype(&::rdma_destroy_event_channel) destroy_event_channel;
  decltype(&::rdma_create_id) create_id;
  decltype(&::rdma_destroy_id) destroy_id;
  decltype(&::rdma_bind_addr) bind_addr;
  decltype(&::rdma_listen) listen;
  decltype(&::rdma_resolve_addr) resolve_addr;
  decltype(&::rdma_resolve_route) resolve_route;
  decltype(&::rdma_init_qp_attr) init_qp_attr;
  decltype(&::rdma_connect) connect;
  decltype(&::rdma_establish) establish;
  decltype(&::rdma_accept) accept;
  decltype(&::rdma_reject) reject;
  decltype(&::rdma_disconnect) disconnect;
  decltype(&::rdma_get_cm_event) get_cm_event;
  decltype(&::rdma_ack_cm_event) ack_cm_event;
  decltype(&::rdma_get_src_port) get_src_port;

  // From this folder; empty: wherever the system has them. Once; a process that asks again gets the
  // same ones, or an error if it asks for others.
  // "(program)": the program itself has them, linked statically and exported (for sanitizers,
  // which the libraries cannot be built with).
  [[nodiscard]] static Result<const VerbsLibrary*> load(const std::string& folder);
};

}  // namespace verbena::fabric
