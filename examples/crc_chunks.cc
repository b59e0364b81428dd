// SPDX-License-Identifier: Apache-2.0
// A storage protocol in miniature: user data arrives from the network and lies in chunks of 4096
// bytes, 4048 of data and 48 of metadata, and every chunk has a CRC-32, without a bounce buffer and
// without the CPU touching the data. The device scatters and signs.
//
//   chunk   | data 4048                    | id 8 | reserved 28 | data CRC 4 | reserved 4 | CRC 4 |
//   offset  0                              4048                 4084                      4092
//
// One key makes the data and the data CRCs of all chunks a range of bytes: an interleave of two
// arrays, with a block signature of 4048 bytes in memory and none on the wire.
//
//   client WRITEs  D0 D1 D2 ...  -->  key  -->  D0 |CRC(D0) in its chunk,  D1 |CRC(D1), ...
//   client READs   D0 D1 D2 ...  <--  key  <--  checked against the CRCs, which are left out
//
// The chunk's own CRC, over data and metadata, is continued from the data's: 44 bytes, not 4092.
//
// This is an ordinary verbs program: with a ConnectX and the system's libraries it does the same.
// Here client and server are two queue pairs of one process.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

namespace {

constexpr uint32_t kData = 4048;
constexpr uint32_t kChunk = 4096;
constexpr uint32_t kDataCrcAt = 4084;
constexpr uint32_t kCrcAt = 4092;
constexpr uint32_t kChunks = 64;
constexpr uint32_t kBytes = kChunks * kData;  // on the wire: no signatures there

void must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

// CRC-32 as the device computes it, bit by bit: to see that it did.
uint32_t crc32(uint32_t state, const uint8_t* bytes, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    state ^= uint32_t{bytes[i]} << 24;
    for (int bit = 0; bit < 8; ++bit) state = (state << 1) ^ ((state >> 31) * 0x04c11db7u);
  }
  return state;
}
uint32_t load32(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return be32toh(word);
}
void store32(uint8_t* at, uint32_t value) {
  const uint32_t word = htobe32(value);
  std::memcpy(at, &word, sizeof word);
}

ibv_context* open_device() {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    if (!mlx5dv_is_supported(devices[i])) continue;
    mlx5dv_context_attr attr{};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;  // a ConnectX wants it for its keys
    ibv_context* context = mlx5dv_open_device(devices[i], &attr);
    if (context == nullptr) {  // not every device has DEVX, nor needs it
      attr.flags = 0;
      context = mlx5dv_open_device(devices[i], &attr);
    }
    must(context != nullptr, "mlx5dv_open_device");
    ibv_free_device_list(devices);
    return context;
  }
  std::fputs("There is no device with memory keys here. Try: verbena run -- crc_chunks\n", stderr);
  std::exit(1);
}

// A queue pair on which keys can be configured.
ibv_qp* create_qp(ibv_pd* pd, ibv_cq* cq) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq;
  attr.pd = pd;
  attr.cap = {.max_send_wr = 16,
              .max_recv_wr = 16,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 512};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags =
      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV;
  mlx5dv_qp_init_attr more{};
  more.comp_mask =
      MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  more.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  more.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
  ibv_qp* const qp = mlx5dv_create_qp(pd->context, &attr, &more);
  must(qp != nullptr, "mlx5dv_create_qp");
  return qp;
}

// To the other queue pair of this process.
void connect(ibv_qp* qp, const ibv_qp* peer) {
  ibv_gid_entry gid{};
  must(ibv_query_gid_ex(qp->context, 1, 0, &gid, 0) == 0, "ibv_query_gid_ex");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "to INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = gid.gid;
  attr.ah_attr.grh.hop_limit = 1;
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
       "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = 7;
  attr.max_rd_atomic = 1;
  must(ibv_modify_qp(qp, &attr,
                     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "to RTS");
}

void wait_for(ibv_cq* cq, const char* what) {
  ibv_wc wc{};
  int got = 0;
  while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) {}
  must(got == 1, "ibv_poll_cq");
  if (wc.status == IBV_WC_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc.status));
  std::exit(1);
}

// Makes `key` the range of all chunks' data, each with its CRC in memory.
void configure(ibv_qp* qp, ibv_cq* cq, mlx5dv_mkey* key, const ibv_mr* chunks) {
  ibv_qp_ex* const wr = ibv_qp_to_qp_ex(qp);
  mlx5dv_qp_ex* const keys = mlx5dv_qp_ex_from_ibv_qp_ex(wr);
  const auto base = reinterpret_cast<uintptr_t>(chunks->addr);
  // 4048 bytes of each chunk, then the 4 where the signature goes.
  const std::array<mlx5dv_mr_interleaved, 2> interleave{{
      {base, kData, kChunk - kData, chunks->lkey},
      {base + kDataCrcAt, 4, kChunk - 4, chunks->lkey},
  }};
  const mlx5dv_sig_crc crc{MLX5DV_SIG_CRC_TYPE_CRC32, 0xffffffff};
  mlx5dv_sig_block_domain in_memory{};
  in_memory.sig_type = MLX5DV_SIG_TYPE_CRC;
  in_memory.sig.crc = &crc;
  in_memory.block_size = MLX5DV_BLOCK_SIZE_4048;
  mlx5dv_sig_block_attr signature{};
  signature.mem = &in_memory;  // and none on the wire
  signature.check_mask = MLX5DV_SIG_MASK_CRC32;

  mlx5dv_mkey_conf_attr attr{};
  ibv_wr_start(wr);
  wr->wr_id = 1;
  wr->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  mlx5dv_wr_mkey_configure(keys, key, 3, &attr);
  mlx5dv_wr_set_mkey_access_flags(
      keys, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  mlx5dv_wr_set_mkey_layout_interleaved(keys, kChunks, interleave.size(), interleave.data());
  mlx5dv_wr_set_mkey_sig_block(keys, &signature);
  must(ibv_wr_complete(wr) == 0, "configuring the key");
  wait_for(cq, "configuring the key");
}

void transfer(ibv_qp* qp, ibv_cq* cq, ibv_wr_opcode opcode, const ibv_mr* buffer, uint32_t rkey) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(buffer->addr), kBytes, buffer->lkey};
  ibv_send_wr wr{};
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = rkey;
  wr.wr.rdma.remote_addr = 0;  // a key's range begins at 0
  ibv_send_wr* bad = nullptr;
  must(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
  wait_for(cq, opcode == IBV_WR_RDMA_READ ? "READ" : "WRITE");
}

// What the server does with a chunk that has arrived: 44 bytes of metadata, nothing of the data.
void seal(uint8_t* chunk, uint64_t id) {
  const uint64_t word = htobe64(id);
  std::memcpy(chunk + kData, &word, sizeof word);
  const uint32_t state = ~load32(chunk + kDataCrcAt);  // as if the data had just been summed
  store32(chunk + kCrcAt, ~crc32(state, chunk + kData, kCrcAt - kData));
}

bool is_whole(const uint8_t* chunk) {
  return ~crc32(0xffffffff, chunk, kCrcAt) == load32(chunk + kCrcAt);
}

}  // namespace

int main() {
  ibv_context* const context = open_device();
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  must(pd != nullptr && cq != nullptr, "PD and CQ");

  std::vector<uint8_t> user(kBytes);
  std::vector<uint8_t> store(size_t{kChunks} * kChunk);
  for (uint32_t i = 0; i < kBytes; ++i) user[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  const int access = IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* const buffer = ibv_reg_mr(pd, user.data(), user.size(), access);
  ibv_mr* const chunks = ibv_reg_mr(pd, store.data(), store.size(), access);
  must(buffer != nullptr && chunks != nullptr, "ibv_reg_mr");

  ibv_qp* const client = create_qp(pd, cq);
  ibv_qp* const server = create_qp(pd, cq);
  connect(client, server);
  connect(server, client);

  mlx5dv_mkey_init_attr wish{};
  wish.pd = pd;
  wish.create_flags =
      MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
  wish.max_entries = 4;
  mlx5dv_mkey* const key = mlx5dv_create_mkey(&wish);
  must(key != nullptr, "mlx5dv_create_mkey");
  configure(server, cq, key, chunks);

  transfer(client, cq, IBV_WR_RDMA_WRITE, buffer, key->rkey);
  uint32_t whole = 0;
  for (uint32_t i = 0; i < kChunks; ++i) {
    seal(&store[size_t{i} * kChunk], i);
    whole += is_whole(&store[size_t{i} * kChunk]) ? 1 : 0;
  }
  std::printf("WRITE of %u bytes: %u of %u chunks are whole, CRC of the first one's data %08x\n",
              kBytes, whole, kChunks, load32(&store[kDataCrcAt]));

  const std::vector<uint8_t> sent = user;
  std::memset(user.data(), 0, user.size());
  transfer(client, cq, IBV_WR_RDMA_READ, buffer, key->rkey);
  mlx5dv_mkey_err error{};
  must(mlx5dv_mkey_check(key, &error) == 0, "mlx5dv_mkey_check");
  const bool back = user == sent && error.err_type == MLX5DV_MKEY_NO_ERR;
  std::printf("READ: the data came back %s, the device found %s\n",
              user == sent ? "as it was" : "WRONG",
              error.err_type == MLX5DV_MKEY_NO_ERR ? "every CRC right" : "a CRC WRONG");

  // One bit in the store goes bad.
  store[size_t{17} * kChunk + 1234] ^= 0x04;
  transfer(client, cq, IBV_WR_RDMA_READ, buffer, key->rkey);
  must(mlx5dv_mkey_check(key, &error) == 0, "mlx5dv_mkey_check");
  const bool caught =
      error.err_type == MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD && error.err.sig.offset / (kData + 4) == 17;
  if (caught) {
    std::printf(
        "A bit of chunk 17 is changed. READ: the device found block %lu wrong: CRC %08lx, stored "
        "%08lx\n",
        static_cast<unsigned long>(error.err.sig.offset / (kData + 4)),
        static_cast<unsigned long>(error.err.sig.actual_value),
        static_cast<unsigned long>(error.err.sig.expected_value));
  } else {
    std::puts("A bit of chunk 17 is changed, and the device did NOT find it");
  }

  mlx5dv_destroy_mkey(key);
  ibv_destroy_qp(client);
  ibv_destroy_qp(server);
  ibv_dereg_mr(buffer);
  ibv_dereg_mr(chunks);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return whole == kChunks && back && caught ? 0 : 1;
}
