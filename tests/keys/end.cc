// SPDX-License-Identifier: Apache-2.0
#include "end.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::keys_test {
namespace {

// Test programs have no one to tell: they end.
void must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::_Exit(3);
}

// What the other process is told to do. A kind goes by its place in all_kinds().
struct Order {
  enum class What : uint8_t { kConnect, kConfigure, kCheck, kSend } what = What::kCheck;
  End::Name peer{};
  uint32_t bytes = 0;
  int memory_kind = -1;
  int wire_kind = -1;
  mlx5dv_block_size block = MLX5DV_BLOCK_SIZE_512;
};
struct Answer {
  End::Name name;
  int error = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
  mlx5dv_mkey_err found{};
};

[[nodiscard]] int place_of(const Kind* kind) {
  if (kind == nullptr) return -1;
  const auto kinds = all_kinds();
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].type == kind->type &&
        std::memcmp(&kinds[i].crc, &kind->crc, sizeof kind->crc) == 0 &&
        std::memcmp(&kinds[i].dif, &kind->dif, sizeof kind->dif) == 0) {
      return static_cast<int>(i);
    }
  }
  must(false, "kind");
  return -1;
}

template <typename T>
void tell(int fd, const T& message) {
  must(::send(fd, &message, sizeof message, MSG_NOSIGNAL) == sizeof message, "tell");
}
template <typename T>
[[nodiscard]] bool hear(int fd, T& message) {
  return ::recv(fd, &message, sizeof message, MSG_WAITALL) == sizeof message;
}

[[nodiscard]] mlx5dv_sig_block_domain domain_of(const Kind& kind, mlx5dv_block_size block) {
  mlx5dv_sig_block_domain domain{};
  domain.sig_type = kind.type;
  if (kind.type == MLX5DV_SIG_TYPE_T10DIF) {
    domain.sig.dif = &kind.dif;
  } else {
    domain.sig.crc = &kind.crc;
  }
  domain.block_size = block;
  return domain;
}

void obey(int fd, uint8_t* memory) {
  End end(memory);
  const auto kinds = all_kinds();
  const auto kind = [&](int place) {
    return place < 0 ? nullptr : &kinds[static_cast<size_t>(place)];
  };
  Answer hello;
  hello.name = end.name();
  tell(fd, hello);
  Order order;
  while (hear(fd, order)) {
    Answer answer;
    switch (order.what) {
      case Order::What::kConnect: end.connect(order.peer); break;
      case Order::What::kConfigure:
        answer.error =
            end.configure(order.bytes, kind(order.memory_kind), kind(order.wire_kind), order.block);
        break;
      case Order::What::kCheck: answer.found = end.check(); break;
      case Order::What::kSend:  answer.status = end.send_from_key(order.bytes); break;
    }
    tell(fd, answer);
  }
}

}  // namespace

End::End(uint8_t* memory) : memory_(memory) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  must(devices != nullptr && count > 0 && mlx5dv_is_supported(devices[0]), "device");
  mlx5dv_context_attr open{};
  context_ = mlx5dv_open_device(devices[0], &open);
  must(context_ != nullptr, "mlx5dv_open_device");
  ibv_free_device_list(devices);
  pd_ = ibv_alloc_pd(context_);
  cq_ = ibv_create_cq(context_, 64, nullptr, nullptr, 0);
  mr_ = ibv_reg_mr(pd_, memory_, kMemoryBytes, IBV_ACCESS_LOCAL_WRITE);
  must(pd_ != nullptr && cq_ != nullptr && mr_ != nullptr, "PD, CQ, MR");
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq_;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 512};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = pd_;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
  mlx5dv_qp_init_attr more{};
  more.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  more.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
  qp_ = mlx5dv_create_qp(context_, &attr, &more);
  must(qp_ != nullptr, "mlx5dv_create_qp");
  mlx5dv_mkey_init_attr wish{};
  wish.pd = pd_;
  wish.create_flags =
      MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
  wish.max_entries = 4;
  key_ = mlx5dv_create_mkey(&wish);
  must(key_ != nullptr, "mlx5dv_create_mkey");
}

End::~End() {
  must(mlx5dv_destroy_mkey(key_) == 0, "mlx5dv_destroy_mkey");
  must(ibv_destroy_qp(qp_) == 0, "ibv_destroy_qp");
  must(ibv_dereg_mr(mr_) == 0, "ibv_dereg_mr");
  must(ibv_destroy_cq(cq_) == 0, "ibv_destroy_cq");
  must(ibv_dealloc_pd(pd_) == 0, "ibv_dealloc_pd");
  must(ibv_close_device(context_) == 0, "ibv_close_device");
}

End::Name End::name() const {
  Name name;
  name.qpn = qp_->qp_num;
  name.rkey = key_->rkey;
  name.addr = reinterpret_cast<uintptr_t>(memory_);
  must(ibv_query_gid(context_, 1, 0, &name.gid) == 0, "ibv_query_gid");
  return name;
}

void End::connect(const Name& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.hop_limit = 64;
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  attr.max_rd_atomic = 4;
  must(ibv_modify_qp(qp_, &attr,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
}

int End::configure(uint32_t layout_bytes, const Kind* memory, const Kind* wire,
                   mlx5dv_block_size block) {
  ibv_qp_ex* const wr = ibv_qp_to_qp_ex(qp_);
  mlx5dv_qp_ex* const keys = mlx5dv_qp_ex_from_ibv_qp_ex(wr);
  const ibv_sge sge{reinterpret_cast<uintptr_t>(memory_), layout_bytes, mr_->lkey};
  mlx5dv_sig_block_domain in_memory{};
  mlx5dv_sig_block_domain on_wire{};
  mlx5dv_sig_block_attr signature{};
  if (memory != nullptr) {
    in_memory = domain_of(*memory, block);
    signature.mem = &in_memory;
    signature.check_mask = memory->mask;
  }
  if (wire != nullptr) {
    on_wire = domain_of(*wire, block);
    signature.wire = &on_wire;
    signature.check_mask = wire->mask;
  }
  mlx5dv_mkey_conf_attr attr{};
  ibv_wr_start(wr);
  wr->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  mlx5dv_wr_mkey_configure(keys, key_, 3, &attr);
  mlx5dv_wr_set_mkey_access_flags(
      keys, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  mlx5dv_wr_set_mkey_layout_list(keys, 1, &sge);
  mlx5dv_wr_set_mkey_sig_block(keys, &signature);
  if (const int error = ibv_wr_complete(wr); error != 0) return error;
  return wait() == IBV_WC_SUCCESS ? 0 : EIO;
}

mlx5dv_mkey_err End::check() {
  mlx5dv_mkey_err found{};
  must(mlx5dv_mkey_check(key_, &found) == 0, "mlx5dv_mkey_check");
  return found;
}

ibv_wc_status End::transfer(ibv_wr_opcode opcode, uint32_t bytes, uint32_t rkey) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(memory_), bytes, mr_->lkey};
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = rkey;
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
  return wait();
}

ibv_wc_status End::send_from_key(uint32_t bytes) {
  ibv_sge sge{0, bytes, key_->lkey};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(qp_, &wr, &bad) == 0, "ibv_post_send");
  return wait();
}

void End::post_receive(uint32_t bytes) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(memory_), bytes, mr_->lkey};
  ibv_recv_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  must(ibv_post_recv(qp_, &wr, &bad) == 0, "ibv_post_recv");
}

ibv_wc_status End::wait() {
  ibv_wc wc{};
  int got = 0;
  while ((got = ibv_poll_cq(cq_, 1, &wc)) == 0) {}
  must(got == 1, "ibv_poll_cq");
  return wc.status;
}

Other::Other(uint8_t* its_memory) {
  std::array<int, 2> fds{};
  must(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds.data()) == 0, "socketpair");
  pid_ = ::fork();
  must(pid_ >= 0, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(fds[0]);
    obey(fds[1], its_memory);
    std::_Exit(0);
  }
  ::close(fds[1]);
  fd_ = fds[0];
  Answer hello;
  must(hear(fd_, hello), "the other end");
  name_ = hello.name;
}

Other::~Other() {
  ::close(fd_);
  int status = 0;
  ::waitpid(pid_, &status, 0);
}

void Other::connect(End& to) {
  Answer answer;
  tell(fd_, Order{.what = Order::What::kConnect, .peer = to.name()});
  must(hear(fd_, answer), "the other end");
  to.connect(name_);
}

int Other::configure(uint32_t layout_bytes, const Kind* memory, const Kind* wire,
                     mlx5dv_block_size block) {
  Answer answer;
  tell(fd_, Order{.what = Order::What::kConfigure,
                  .bytes = layout_bytes,
                  .memory_kind = place_of(memory),
                  .wire_kind = place_of(wire),
                  .block = block});
  must(hear(fd_, answer), "the other end");
  return answer.error;
}

mlx5dv_mkey_err Other::check() {
  Answer answer;
  tell(fd_, Order{.what = Order::What::kCheck});
  must(hear(fd_, answer), "the other end");
  return answer.found;
}

ibv_wc_status Other::send_from_key(uint32_t bytes) {
  Answer answer;
  tell(fd_, Order{.what = Order::What::kSend, .bytes = bytes});
  must(hear(fd_, answer), "the other end");
  return answer.status;
}

}  // namespace verbena::keys_test
