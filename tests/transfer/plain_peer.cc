// SPDX-License-Identifier: Apache-2.0
// An independent peer for plain mode, in both roles, written from the protocol's twelve steps with
// librdmacm and libibverbs alone. With --mistake it breaks the protocol once, in one way.
//
//   plain_peer send HOST PORT FILE NAME [--mistake WHICH]
//   plain_peer receive HOST PORT DIR COUNT [--mistake WHICH]
//
// `receive` prints "ready PORT"; port 0 is any. Exit status: 0 done, 3 the other end disconnected
// first, 1 any other failure.
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

namespace {

constexpr size_t kBufferBytes = 10 * 1024 * 1024;
constexpr size_t kMaxFileName = 256;
constexpr int kTimeoutMs = 30'000;
constexpr int kDisconnected = 3;

enum MessageId { kInvalid = 0, kMemory, kReady, kDone };
struct Message {
  int id;
  union {
    struct {
      uint64_t addr;
      uint32_t rkey;
    } mr;
  } data;
};
static_assert(sizeof(Message) == 24);

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "plain_peer: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}
void must(bool good, const char* what) {
  if (!good) die(what);
}

// One end of one connection.
class End {
 public:
  End(rdma_cm_id* id, bool receives) : id_(id), buffer_(kBufferBytes) {
    pd_ = ibv_alloc_pd(id->verbs);
    must(pd_ != nullptr, "ibv_alloc_pd");
    events_ = ibv_create_comp_channel(id->verbs);
    must(events_ != nullptr, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(id->verbs, 16, nullptr, events_, 0);
    must(cq_ != nullptr, "ibv_create_cq");
    must(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = cq_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = 10,
                      .max_recv_wr = 10,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    must(rdma_create_qp(id, pd_, &attributes) == 0, "rdma_create_qp");
    constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
    const int access = kLocal | (receives ? IBV_ACCESS_REMOTE_WRITE : 0);
    buffer_mr_ = ibv_reg_mr(pd_, buffer_.data(), buffer_.size(), access);
    message_mr_ = ibv_reg_mr(pd_, &message_, sizeof message_, kLocal);
    must(buffer_mr_ != nullptr && message_mr_ != nullptr, "ibv_reg_mr");
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() {
    rdma_destroy_qp(id_);
    ibv_dereg_mr(buffer_mr_);
    ibv_dereg_mr(message_mr_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(events_);
    ibv_dealloc_pd(pd_);
  }

  void post_receive(bool with_message) {
    ibv_sge sge = message_sge();
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = with_message ? &sge : nullptr;
    wr.num_sge = with_message ? 1 : 0;
    must(ibv_post_recv(id_->qp, &wr, &bad) == 0, "ibv_post_recv");
  }
  void send_message(const Message& message, uint32_t length = sizeof(Message)) {
    message_ = message;
    ibv_sge sge = message_sge();
    sge.length = length;
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    must(ibv_post_send(id_->qp, &wr, &bad) == 0, "ibv_post_send");
  }
  void write(uint32_t length, uint32_t immediate) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(buffer_.data()), length, buffer_mr_->lkey};
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.imm_data = htonl(immediate);
    wr.wr.rdma.remote_addr = peer_address;
    wr.wr.rdma.rkey = peer_rkey;
    wr.sg_list = length > 0 ? &sge : nullptr;
    wr.num_sge = length > 0 ? 1 : 0;
    must(ibv_post_send(id_->qp, &wr, &bad) == 0, "ibv_post_send");
    ++writes_;
  }

  // The next completion of a receive. False: disconnected.
  bool next(ibv_wc& wc) {
    while (next_of_any(wc)) {
      if ((wc.opcode & IBV_WC_RECV) != 0) return true;
    }
    return false;
  }
  // Until the other end has all that was written.
  void await_writes() {
    ibv_wc wc{};
    while (writes_ > 0 && next_of_any(wc)) {}
  }
  // Until the other end has disconnected.
  void await_disconnect() {
    while (wait()) {}
  }

  Message& message() { return message_; }
  std::vector<char>& buffer() { return buffer_; }
  [[nodiscard]] uint32_t rkey() const { return buffer_mr_->rkey; }
  uint64_t peer_address = 0;
  uint32_t peer_rkey = 0;

 private:
  ibv_sge message_sge() {
    return {reinterpret_cast<uintptr_t>(&message_), sizeof message_, message_mr_->lkey};
  }
  bool next_of_any(ibv_wc& wc) {
    while (true) {
      const int got = ibv_poll_cq(cq_, 1, &wc);
      must(got >= 0, "ibv_poll_cq");
      if (got > 0) {
        if (wc.opcode == IBV_WC_RDMA_WRITE) --writes_;
        return wc.status == IBV_WC_SUCCESS;
      }
      if (!wait()) return false;
    }
  }
  // For a completion; false: the other end has disconnected.
  bool wait() {
    std::array<pollfd, 2> fds{pollfd{events_->fd, POLLIN, 0}, pollfd{id_->channel->fd, POLLIN, 0}};
    must(poll(fds.data(), fds.size(), kTimeoutMs) > 0, "nothing happens");
    if (fds[0].revents != 0) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      must(ibv_get_cq_event(events_, &cq, &context) == 0, "ibv_get_cq_event");
      ibv_ack_cq_events(cq, 1);
      must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
      return true;
    }
    rdma_cm_event* event = nullptr;
    must(rdma_get_cm_event(id_->channel, &event) == 0, "rdma_get_cm_event");
    const bool over = event->event == RDMA_CM_EVENT_DISCONNECTED && event->id == id_;
    rdma_ack_cm_event(event);
    return !over;
  }

  rdma_cm_id* id_;
  std::vector<char> buffer_;
  Message message_{};
  size_t writes_ = 0;  // that have not completed
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* events_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* buffer_mr_ = nullptr;
  ibv_mr* message_mr_ = nullptr;
};

rdma_cm_id* expect(rdma_event_channel* channel, rdma_cm_event_type type) {
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  if (event->event != type) {
    std::fprintf(stderr, "plain_peer: %s instead of %s\n", rdma_event_str(event->event),
                 rdma_event_str(type));
    std::exit(1);
  }
  rdma_cm_id* const id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

addrinfo* address_of(const char* host, const char* port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  must(getaddrinfo(host, port, &hints, &found) == 0, "getaddrinfo");
  return found;
}

rdma_conn_param parameters() {
  rdma_conn_param param{};
  param.initiator_depth = param.responder_resources = 1;
  param.rnr_retry_count = 7;  // for ever
  param.retry_count = 7;
  return param;
}

// --- the sender

// What breaks the protocol at the beginning; true: it did.
bool mistaken_name(End& end, const std::string& mistake) {
  if (mistake == "no-name") {
    end.write(0, 0);
  } else if (mistake == "long-immediate") {
    end.write(5, kBufferBytes + 1);
  } else if (mistake == "huge-immediate") {
    end.write(5, UINT32_MAX);
  } else if (mistake == "message") {
    end.send_message({});
  } else {
    return false;
  }
  return true;
}

int send_file(End& end, rdma_cm_id* id, int fd, const std::string& name,
              const std::string& mistake) {
  size_t chunks = 0;
  bool ended = false;
  ibv_wc wc{};
  while (end.next(wc)) {
    const Message message = end.message();
    end.post_receive(true);
    if (message.id == kMemory) {
      end.peer_address = message.data.mr.addr;
      end.peer_rkey = message.data.mr.rkey;
      if (mistaken_name(end, mistake)) continue;
      std::memcpy(end.buffer().data(), name.c_str(), name.size() + 1);
      end.write(static_cast<uint32_t>(name.size() + 1), static_cast<uint32_t>(name.size() + 1));
      if (mistake == "early") end.write(1000, 1000);
    } else if (message.id == kReady) {
      if (chunks == 1 && mistake == "leave") {
        rdma_disconnect(id);
        end.await_disconnect();
        return 0;
      }
      if (chunks == 1 && mistake == "vanish") _exit(0);
      const ssize_t got = read(fd, end.buffer().data(), end.buffer().size());
      must(got >= 0, "read");
      end.write(static_cast<uint32_t>(got), static_cast<uint32_t>(got));
      if (mistake == "early-chunk") end.write(1000, 1000);
      ++chunks;
      ended = got == 0;
      if (ended && mistake == "hurry") {  // the twelve steps to the letter: no wait for DONE
        end.await_writes();
        rdma_disconnect(id);
        end.await_disconnect();
        return 0;
      }
    } else if (message.id == kDone && ended) {
      rdma_disconnect(id);
      end.await_disconnect();
      return 0;
    } else {
      std::fprintf(stderr, "plain_peer: message %d out of turn\n", message.id);
      return 1;
    }
  }
  return kDisconnected;
}

int run_sender(char** words, const std::string& mistake) {
  const int fd = open(words[2], O_RDONLY | O_CLOEXEC);
  must(fd >= 0, words[2]);
  rdma_event_channel* const channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  must(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  addrinfo* const to = address_of(words[0], words[1]);
  must(rdma_resolve_addr(id, nullptr, to->ai_addr, 2000) == 0, "rdma_resolve_addr");
  freeaddrinfo(to);
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  int status = 0;
  {
    End end(id, false);
    end.post_receive(true);
    rdma_conn_param param = parameters();
    must(rdma_connect(id, &param) == 0, "rdma_connect");
    expect(channel, RDMA_CM_EVENT_ESTABLISHED);
    status = send_file(end, id, fd, words[3], mistake);
  }
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  close(fd);
  return status;
}

// --- the receiver

void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t done = write(fd, data, size);
    must(done > 0, "write");
    data += done;
    size -= static_cast<size_t>(done);
  }
}

int open_named(const std::string& folder, const char* data, uint32_t size) {
  must(size > 1 && size <= kMaxFileName && data[size - 1] == '\0', "the name is not valid");
  const std::string path = folder + "/" + data;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  must(fd >= 0, path.c_str());
  return fd;
}

int receive_file(End& end, rdma_cm_id* id, const std::string& folder, const std::string& mistake) {
  int fd = -1;
  size_t chunks = 0;
  bool done = false;
  ibv_wc wc{};
  while (end.next(wc)) {
    if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return 1;
    const uint32_t size = ntohl(wc.imm_data);
    must(size <= kBufferBytes && !done, "a write is out of turn");
    end.post_receive(false);
    Message reply{};
    reply.id = kReady;
    if (size == 0) {
      must(fd >= 0 && close(fd) == 0, "the end before the beginning");
      reply.id = kDone;
      done = true;
    } else if (fd >= 0) {
      write_all(fd, end.buffer().data(), size);
      ++chunks;
    } else {
      fd = open_named(folder, end.buffer().data(), size);
    }
    if (chunks == 1 && mistake == "leave") {
      rdma_disconnect(id);
      return 0;
    }
    if (chunks == 1 && mistake == "early-done") reply.id = kDone;
    if (chunks == 1 && mistake == "memory-again") reply.id = kMemory;
    if (chunks == 1 && mistake == "unknown") reply.id = 9;
    end.send_message(reply, chunks == 1 && mistake == "short" ? 8 : sizeof(Message));
    if (reply.id == kDone && mistake == "done-twice") end.send_message(reply);
  }
  return done ? 0 : kDisconnected;
}

int run_receiver(char** words, const std::string& mistake) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* listener = nullptr;
  must(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  addrinfo* const at = address_of(words[0], words[1]);
  must(rdma_bind_addr(listener, at->ai_addr) == 0, "rdma_bind_addr");
  freeaddrinfo(at);
  must(rdma_listen(listener, 8) == 0, "rdma_listen");
  std::printf("ready %d\n", ntohs(rdma_get_src_port(listener)));
  std::fflush(stdout);
  int status = 0;
  for (int left = std::atoi(words[3]); left > 0 && status == 0; --left) {
    rdma_cm_id* const id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    rdma_event_channel* const own = rdma_create_event_channel();
    {
      End end(id, true);
      end.post_receive(false);
      rdma_conn_param param = parameters();
      must(rdma_accept(id, &param) == 0, "rdma_accept");
      expect(channel, RDMA_CM_EVENT_ESTABLISHED);
      // The next sender's request is not to be seen in between.
      must(own != nullptr && rdma_migrate_id(id, own) == 0, "rdma_migrate_id");
      Message memory{};
      memory.id = kMemory;
      memory.data.mr.addr = reinterpret_cast<uintptr_t>(end.buffer().data());
      memory.data.mr.rkey = end.rkey();
      end.send_message(memory);
      status = receive_file(end, id, words[2], mistake);
      rdma_disconnect(id);
    }
    rdma_destroy_id(id);
    rdma_destroy_event_channel(own);
  }
  rdma_destroy_id(listener);
  rdma_destroy_event_channel(channel);
  return status;
}

}  // namespace

int main(int count, char** words) {
  std::string mistake;
  if (count > 3 && std::strcmp(words[count - 2], "--mistake") == 0) {
    mistake = words[count - 1];
    count -= 2;
  }
  if (count == 6 && std::strcmp(words[1], "send") == 0) return run_sender(words + 2, mistake);
  if (count == 6 && std::strcmp(words[1], "receive") == 0) return run_receiver(words + 2, mistake);
  std::fprintf(stderr, "plain_peer send HOST PORT FILE NAME | receive HOST PORT DIR COUNT\n");
  return 2;
}
