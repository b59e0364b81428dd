// SPDX-License-Identifier: Apache-2.0
// Random sequences of verbs calls, as a program that is thoroughly wrong would make them: any
// object that exists or existed, any flags, sizes and states. Whatever they return, the process
// must live, and when all is closed the device must open and carry a message again.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <fcntl.h>
#include <infiniband/verbs.h>

#include "base/check.h"
#include "base/fuzz_input.h"

namespace {

using Input = verbena::FuzzInput;

// What there is and was of a kind. Destroyed ones stay, to be used again.
template <typename T>
struct Kept {
  std::vector<T*> all;
  void keep(T* object) {
    if (object != nullptr && all.size() < 24) all.push_back(object);
  }
  // One of them, mostly the newest; none if there is none.
  T* pick(Input& in) const {
    if (all.empty()) return nullptr;
    const uint8_t which = in.u8();
    return which < 0xc0 ? all.back() : all[which % all.size()];
  }
};

class Program {
 public:
  explicit Program(Input& in) : in_(in) {
    list_ = ibv_get_device_list(nullptr);
    open();
    VERBENA_CHECK(contexts_.all.size() == 1);
  }
  // As far as it can: what its context did not outlive stays.
  ~Program() {
    for (ibv_qp* const qp : qps_.all) ignore(ibv_destroy_qp(qp));
    for (ibv_srq* const srq : srqs_.all) ignore(ibv_destroy_srq(srq));
    for (ibv_mw* const mw : mws_.all) ignore(ibv_dealloc_mw(mw));
    for (ibv_mr* const mr : mrs_.all) ignore(ibv_dereg_mr(mr));
    for (ibv_dm* const dm : dms_.all) ignore(ibv_free_dm(dm));
    for (ibv_cq* const cq : cqs_.all) ignore(ibv_destroy_cq(cq));
    for (ibv_comp_channel* const channel : channels_.all) ignore(ibv_destroy_comp_channel(channel));
    for (ibv_ah* const ah : ahs_.all) ignore(ibv_destroy_ah(ah));
    for (ibv_xrcd* const xrcd : xrcds_.all) ignore(ibv_close_xrcd(xrcd));
    for (auto pd = pds_.all.rbegin(); pd != pds_.all.rend(); ++pd) ignore(ibv_dealloc_pd(*pd));
    for (ibv_context* const context : contexts_.all) (void)ibv_close_device(context);
    ibv_free_device_list(list_);
  }

  void step() {
    switch (in_.u8() % 41) {
      case 0:  return open();
      case 1:  return close();
      case 2:  return pds_.keep(ibv_alloc_pd(context()));
      case 3:  return ignore(ibv_dealloc_pd(pds_.pick(in_)));
      case 4:  return create_cq();
      case 5:  return ignore(ibv_destroy_cq(cqs_.pick(in_)));
      case 6:
      case 7:  return create_qp();
      case 8:  return ignore(ibv_destroy_qp(qps_.pick(in_)));
      case 9:
      case 10:
      case 11:
      case 12: return modify_qp();
      case 13:
      case 14: return post_send();
      case 15:
      case 16: return post_recv();
      case 17: return poll();
      case 18: return reg_mr();
      case 19: return ignore(ibv_dereg_mr(mrs_.pick(in_)));
      case 20: return create_srq();
      case 21: return ignore(ibv_destroy_srq(srqs_.pick(in_)));
      case 22: return post_srq();
      case 23: return create_ah();
      case 24: return ignore(ibv_destroy_ah(ahs_.pick(in_)));
      case 25: return channels_.keep(ibv_create_comp_channel(context()));
      case 26: return ignore(ibv_destroy_comp_channel(channels_.pick(in_)));
      case 27: return resize();
      case 28: return windows();
      case 29: return xrc();
      case 30: return connect_pair();
      case 31: return work_api();
      case 32: return device_memory();
      case 33: return query();
      case 34: return rereg();
      case 35: return parent_domain();
      case 36: return arm_srq();
      case 37: return import();
      case 38: return notify();
      case 39: return groups();
      default: return poll();
    }
  }

 private:
  static void ignore(int /*error*/) {}
  ibv_context* context() { return contexts_.pick(in_); }

  void open() {
    if (contexts_.all.size() >= 3) return;
    contexts_.keep(ibv_open_device(list_[0]));
  }
  // The first stays until the end: the engine is costly to start.
  void close() {
    ibv_context* const which = context();
    // A channel that cannot be destroyed any more keeps its descriptor, and a run has not so many.
    if (in_.u8() >= 32 || !channels_.all.empty()) return;
    if (which != contexts_.all.front()) ignore(ibv_close_device(which));
  }
  void create_cq() {
    const auto entries = static_cast<int>(in_.number());
    if (entries > 1 << 16) return;  // memory is not what is tested
    ibv_comp_channel* const channel = (in_.u8() & 1) != 0 ? channels_.pick(in_) : nullptr;
    cqs_.keep(ibv_create_cq(context(), entries, nullptr, channel, in_.u8() & 1));
  }
  void create_qp() {
    ibv_qp_init_attr_ex init{};
    init.send_cq = cqs_.pick(in_);
    init.recv_cq = cqs_.pick(in_);
    init.srq = (in_.u8() & 3) == 0 ? srqs_.pick(in_) : nullptr;
    init.cap = {in_.number() & 0xfff, in_.number() & 0xfff, in_.number(), in_.number(), in_.u8()};
    constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC,        IBV_QPT_RC,       IBV_QPT_UC,
                                      IBV_QPT_UD,        IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV,
                                      IBV_QPT_RAW_PACKET};
    init.qp_type = kTypes[in_.u8() % std::size(kTypes)];
    init.sq_sig_all = in_.u8() & 1;
    ibv_pd* const pd = pds_.pick(in_);
    if ((in_.u8() & 1) == 0 && pd != nullptr) {
      qps_.keep(ibv_create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&init)));
      return;
    }
    init.comp_mask = IBV_QP_INIT_ATTR_PD | (in_.number() & 0x3f);
    init.pd = pd;
    init.xrcd = xrcds_.pick(in_);
    init.send_ops_flags = in_.number();
    ibv_context* const where = context();
    if (where != nullptr) qps_.keep(ibv_create_qp_ex(where, &init));
  }
  ibv_ah_attr address() {
    ibv_ah_attr attr{};
    attr.is_global = in_.u8() != 0;
    attr.port_num = in_.u8() < 0xf0 ? 1 : in_.u8();
    attr.grh.sgid_index = in_.u8() < 0xc0 ? 0 : in_.u8();
    ibv_gid gid{};
    (void)ibv_query_gid(contexts_.all.front(), 1, attr.grh.sgid_index, &gid);
    attr.grh.dgid = gid;
    if (in_.u8() > 0xf0) attr.grh.dgid.raw[in_.u8() % 16] ^= in_.u8();
    return attr;
  }
  void modify_qp() {
    ibv_qp* const qp = qps_.pick(in_);
    if (qp == nullptr) return;
    constexpr int kMasks[] = {IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                              IBV_QP_STATE | IBV_QP_SQ_PSN,
                              IBV_QP_STATE};
    ibv_qp_attr attr{};
    attr.qp_state = static_cast<ibv_qp_state>(in_.u8() % 9);
    attr.port_num = 1;
    attr.qp_access_flags = in_.u8();
    attr.path_mtu = static_cast<ibv_mtu>(in_.u8() % 8);
    attr.dest_qp_num = qps_.all[in_.u8() % qps_.all.size()]->qp_num;
    attr.ah_attr = address();
    attr.timeout = in_.u8() % 12;
    attr.retry_cnt = in_.u8() & 15;
    attr.rnr_retry = in_.u8() & 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = in_.u8();
    attr.min_rnr_timer = in_.u8();
    attr.rq_psn = attr.sq_psn = 7;
    const int mask = kMasks[in_.u8() % std::size(kMasks)];
    ignore(ibv_modify_qp(qp, &attr, in_.u8() > 0xf0 ? static_cast<int>(in_.u32()) : mask));
  }
  // Two of the newest become a connection, so that more than errors is tried.
  void connect_pair() {
    if (qps_.all.size() < 2) return;
    ibv_qp* const ends[] = {qps_.all.back(), qps_.all[qps_.all.size() - 2]};
    ibv_gid gid{};
    (void)ibv_query_gid(contexts_.all.front(), 1, 0, &gid);
    for (int i = 0; i < 2; ++i) {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_INIT;
      attr.port_num = 1;
      attr.qp_access_flags = 15;
      ignore(ibv_modify_qp(ends[i], &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
      attr.qp_state = IBV_QPS_RTR;
      attr.path_mtu = IBV_MTU_256;
      attr.dest_qp_num = ends[1 - i]->qp_num;
      attr.max_dest_rd_atomic = attr.max_rd_atomic = 2;
      attr.min_rnr_timer = 1;
      attr.ah_attr.is_global = 1;
      attr.ah_attr.port_num = 1;
      attr.ah_attr.grh.dgid = gid;
      ignore(ibv_modify_qp(ends[i], &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
      attr.qp_state = IBV_QPS_RTS;
      attr.timeout = 8;
      attr.retry_cnt = 1;
      ignore(ibv_modify_qp(ends[i], &attr,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
    }
  }
  ibv_sge entry() {
    ibv_mr* const mr = mrs_.pick(in_);
    return {reinterpret_cast<uintptr_t>(memory_.data()) + (in_.number() & 0x3fff),
            in_.number() & 0x3fff, mr != nullptr && in_.u8() < 0xf0 ? mr->lkey : in_.u32()};
  }
  void post_send() {
    ibv_qp* const qp = qps_.pick(in_);
    if (qp == nullptr) return;
    std::array<ibv_sge, 4> list{entry(), entry(), entry(), entry()};
    std::array<ibv_send_wr, 3> chain{};
    for (size_t i = 0; i < chain.size(); ++i) {
      ibv_send_wr& wr = chain[i];
      wr.next = i + 1 < chain.size() && (in_.u8() & 1) != 0 ? &chain[i + 1] : nullptr;
      wr.sg_list = list.data();
      wr.num_sge = in_.u8() % 5;
      wr.opcode = static_cast<ibv_wr_opcode>(in_.u8() % 17);
      // Inline data is read at once, from the memory that is there.
      wr.send_flags = in_.u8() & 0x1f;
      ibv_mr* const mr = mrs_.pick(in_);
      wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(memory_.data()) + in_.number();
      wr.wr.rdma.rkey = mr != nullptr ? mr->rkey : in_.u32();
      if (qp->qp_type == IBV_QPT_UD) {
        wr.wr.ud = {ahs_.pick(in_), in_.number(), in_.number()};
      } else if (wr.opcode == IBV_WR_BIND_MW) {
        wr.bind_mw.mw = mws_.pick(in_);
        wr.bind_mw.rkey = in_.u32();
        wr.bind_mw.bind_info = {mr, reinterpret_cast<uintptr_t>(memory_.data()), in_.number(),
                                in_.u8()};
      }
      if (qp->qp_type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = in_.number();
    }
    ibv_send_wr* bad = nullptr;
    ignore(ibv_post_send(qp, chain.data(), &bad));
  }
  ibv_recv_wr receive(ibv_sge* list) {
    return {.wr_id = 1, .next = nullptr, .sg_list = list, .num_sge = in_.u8() % 4};
  }
  void post_recv() {
    ibv_qp* const qp = qps_.pick(in_);
    if (qp == nullptr) return;
    std::array<ibv_sge, 3> list{entry(), entry(), entry()};
    ibv_recv_wr wr = receive(list.data());
    ibv_recv_wr* bad = nullptr;
    ignore(ibv_post_recv(qp, &wr, &bad));
  }
  void post_srq() {
    ibv_srq* const srq = srqs_.pick(in_);
    if (srq == nullptr) return;
    std::array<ibv_sge, 3> list{entry(), entry(), entry()};
    ibv_recv_wr wr = receive(list.data());
    ibv_recv_wr* bad = nullptr;
    ignore(ibv_post_srq_recv(srq, &wr, &bad));
  }
  void poll() {
    ibv_cq* const cq = cqs_.pick(in_);
    if (cq == nullptr) return;
    std::array<ibv_wc, 8> wc;
    for (int i = 0; i < 4; ++i) ignore(ibv_poll_cq(cq, in_.u8() % 9, wc.data()));
  }
  void notify() {
    ibv_cq* const cq = cqs_.pick(in_);
    if (cq != nullptr) ignore(ibv_req_notify_cq(cq, in_.u8() & 1));
  }
  void reg_mr() {
    const size_t at = in_.number() & 0xffff;
    const size_t most = memory_.size() - std::min(at, memory_.size());
    mrs_.keep(ibv_reg_mr_iova2(pds_.pick(in_), memory_.data() + at % memory_.size(),
                               std::min<size_t>(in_.number(), most), in_.number(),
                               in_.u8() < 0xe0 ? in_.u8() & 0x3f : in_.u32()));
  }
  void rereg() {
    ignore(ibv_rereg_mr(mrs_.pick(in_), static_cast<int>(in_.number()), pds_.pick(in_),
                        memory_.data(), in_.number() & 0xfff, in_.u8() & 0x3f));
  }
  void create_srq() {
    ibv_srq_init_attr_ex init{};
    init.attr = {in_.number() & 0xfff, in_.number(), in_.number()};
    init.comp_mask = in_.number() & 0x3f;
    init.srq_type = static_cast<ibv_srq_type>(in_.u8() % 4);
    init.pd = pds_.pick(in_);
    init.xrcd = xrcds_.pick(in_);
    init.cq = cqs_.pick(in_);
    ibv_context* const where = context();
    if (init.pd == nullptr || where == nullptr) return;
    srqs_.keep(ibv_create_srq_ex(where, &init));
  }
  void arm_srq() {
    ibv_srq_attr attr{in_.number(), in_.number(), in_.number()};
    ignore(ibv_modify_srq(srqs_.pick(in_), &attr, in_.u8() & 7));
    ignore(ibv_query_srq(srqs_.pick(in_), &attr));
  }
  void create_ah() {
    ibv_ah_attr attr = address();
    ahs_.keep(ibv_create_ah(pds_.pick(in_), &attr));
  }
  void resize() {
    const auto entries = static_cast<int>(in_.number() & 0xffff);
    ignore(ibv_resize_cq(cqs_.pick(in_), entries));
  }
  void windows() {
    ibv_pd* const pd = pds_.pick(in_);
    ibv_mw* const mw = mws_.pick(in_);
    ibv_qp* const qp = qps_.pick(in_);
    switch (in_.u8() % 3) {
      case 0:
        if (pd != nullptr) mws_.keep(ibv_alloc_mw(pd, static_cast<ibv_mw_type>(in_.u8() % 4)));
        return;
      case 1:
        if (mw != nullptr) ignore(ibv_dealloc_mw(mw));
        return;
      default:
        ibv_mw_bind bind{};
        bind.send_flags = in_.u8() & 7;
        bind.bind_info = {mrs_.pick(in_), reinterpret_cast<uintptr_t>(memory_.data()), in_.number(),
                          in_.u8()};
        if (qp != nullptr && mw != nullptr) ignore(ibv_bind_mw(qp, mw, &bind));
    }
  }
  void xrc() {
    ibv_xrcd* const xrcd = xrcds_.pick(in_);
    if ((in_.u8() & 1) != 0 && xrcd != nullptr) return ignore(ibv_close_xrcd(xrcd));
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = in_.u8() & 7;
    attr.fd = -1;
    attr.oflags = (in_.u8() & 1) != 0 ? O_CREAT : 0;
    ibv_context* const where = context();
    if (where != nullptr) xrcds_.keep(ibv_open_xrcd(where, &attr));
  }
  void set_data(ibv_qp_ex* work) {
    std::array<ibv_sge, 8> list;
    list.fill(entry());
    const std::array<ibv_data_buf, 2> parts{{{memory_.data(), in_.u8()}, {memory_.data(), 9}}};
    switch (in_.u8() % 4) {
      case 0:  return ibv_wr_set_sge(work, list[0].lkey, list[0].addr, list[0].length);
      case 1:  return ibv_wr_set_sge_list(work, in_.u8() % 9, list.data());
      case 2:  return ibv_wr_set_inline_data(work, memory_.data(), in_.u8());
      default: return ibv_wr_set_inline_data_list(work, size_t{1} + in_.u8() % 2, parts.data());
    }
  }
  void work_api() {
    ibv_qp* const qp = qps_.pick(in_);
    if (qp == nullptr) return;
    ibv_qp_ex* const work = ibv_qp_to_qp_ex(qp);
    if (work == nullptr) return;
    ibv_wr_start(work);
    for (int i = in_.u8() % 4; i > 0; --i) {
      work->wr_flags = in_.u8() & 7;
      ibv_wr_rdma_write(work, in_.u32(), in_.u32());
      set_data(work);
    }
    if ((in_.u8() & 1) != 0) {
      ignore(ibv_wr_complete(work));
    } else {
      ibv_wr_abort(work);
    }
  }
  void groups() {
    ibv_gid group{};
    group.raw[10] = group.raw[11] = 0xff;
    group.raw[12] = in_.u8() > 0xf0 ? in_.u8() : 239;
    group.raw[15] = in_.u8() % 4;
    ibv_qp* const qp = qps_.pick(in_);
    ignore(in_.u8() % 3 != 0 ? ibv_attach_mcast(qp, &group, 0) : ibv_detach_mcast(qp, &group, 0));
  }

  void device_memory() {
    ibv_dm* const dm = dms_.pick(in_);
    ibv_context* const where = context();
    switch (in_.u8() % 4) {
      case 0: {
        ibv_alloc_dm_attr attr{};
        attr.length = in_.number();
        attr.log_align_req = in_.u8() & 31;
        if (where != nullptr) dms_.keep(ibv_alloc_dm(where, &attr));
        return;
      }
      case 1:
        if (dm != nullptr) ignore(ibv_free_dm(dm));
        return;
      case 2:
        if (dm != nullptr) {
          ignore(ibv_memcpy_to_dm(dm, in_.number(), memory_.data(), in_.number() & 0xfff));
        }
        return;
      default:
        ibv_pd* const pd = pds_.pick(in_);
        if (dm != nullptr && pd != nullptr) {
          mrs_.keep(
              ibv_reg_dm_mr(pd, dm, in_.number(), in_.number(), in_.u8() | IBV_ACCESS_ZERO_BASED));
        }
    }
  }
  void query() {
    ibv_context* const where = context();
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    ignore(ibv_query_qp(qps_.pick(in_), &attr, static_cast<int>(in_.u32()), &init));
    ibv_device_attr device;
    ignore(ibv_query_device(where, &device));
    ibv_gid gid;
    ignore(ibv_query_gid(where, in_.u8() & 3, static_cast<int>(in_.number()), &gid));
    ibv_port_attr port;
    if (where != nullptr) ignore(ibv_query_port(where, in_.u8() & 3, &port));
  }
  void parent_domain() {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pds_.pick(in_);
    attr.comp_mask = in_.u8() & 3;
    ibv_context* const where = context();
    if (where != nullptr) pds_.keep(ibv_alloc_parent_domain(where, &attr));
  }
  void import() {
    ibv_context* const where = context();
    if (where == nullptr) return;
    pds_.keep(ibv_import_pd(where, in_.number()));
    ibv_pd* const pd = pds_.pick(in_);
    if (pd != nullptr) mrs_.keep(ibv_import_mr(pd, in_.number()));
  }

  Input& in_;
  ibv_device** list_;
  Kept<ibv_context> contexts_;
  Kept<ibv_pd> pds_;
  Kept<ibv_cq> cqs_;
  Kept<ibv_qp> qps_;
  Kept<ibv_mr> mrs_;
  Kept<ibv_mw> mws_;
  Kept<ibv_dm> dms_;
  Kept<ibv_srq> srqs_;
  Kept<ibv_xrcd> xrcds_;
  Kept<ibv_ah> ahs_;
  Kept<ibv_comp_channel> channels_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(65'536);
};

// The engine stays for the whole run.
ibv_context* the_first() {
  static ibv_context* const context = [] {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_context* const opened = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return opened;
  }();
  return context;
}

}  // namespace

// What such a program does not destroy, it leaks.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): its name for it
extern "C" const char* __asan_default_options();
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  VERBENA_CHECK(the_first() != nullptr);
  Input in(data, size);
  {
    Program program(in);
    for (int i = 0; i < 400 && !in.empty(); ++i) program.step();
  }
  // Nothing of it is left, and the device serves.
  ibv_pd* const pd = ibv_alloc_pd(the_first());
  VERBENA_CHECK(pd != nullptr);
  VERBENA_CHECK(ibv_dealloc_pd(pd) == 0);
  return 0;
}
