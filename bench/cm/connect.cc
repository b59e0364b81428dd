// SPDX-License-Identifier: Apache-2.0
// Makes connections by rdma_cm, or by plain TCP sockets, and tells how long they took: a program of
// the public interface, so that it runs on any librdmacm.
//
//   connect serve rdma|tcp PORT
//   connect call rdma|tcp ADDRESS PORT COUNT AT-ONCE HELD
//
// The server takes what comes until it is told to end by the end of its standard input. The client
// makes COUNT connections, so many at once, each closed when it stands, but for the last HELD; then
// prints one line: seconds in all, the median microseconds of one, and the bytes of memory that a
// held one took at this end; and holds them until the end of its standard input. The server prints
// its own bytes per connection held, at its end.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace {

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void must(bool good, const char* what) {
  if (!good) die(what);
}

double seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Resident memory of this process.
double memory() {
  long size = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

sockaddr_in address_of(const char* ip, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
  must(::inet_pton(AF_INET, ip, &address.sin_addr) == 1, ip);
  return address;
}

class Tally {
 public:
  Tally(uint32_t count, uint32_t held) : count_(count), held_(held) {}
  // One stands, after so long; whether it is to be kept.
  bool stands(double took) {
    took_.push_back(took);
    if (took_.size() == count_ - held_) before_ = memory();
    return took_.size() > count_ - held_;
  }
  [[nodiscard]] bool complete() const { return took_.size() == count_; }
  void print() {
    std::ranges::nth_element(took_, took_.begin() + static_cast<ptrdiff_t>(took_.size() / 2));
    const double each = held_ == 0 ? 0 : (memory() - before_) / held_;
    std::printf("%.6f %.2f %.0f\n", seconds() - began_, took_[took_.size() / 2] * 1e6, each);
    std::fflush(stdout);
    char any = 0;
    while (held_ != 0 && ::read(STDIN_FILENO, &any, 1) > 0) {}
  }

 private:
  uint32_t count_;
  uint32_t held_;
  double began_ = seconds();
  double before_ = memory();
  std::vector<double> took_;
};

// ---- rdma_cm

// Small queues, one completion queue for all.
class Queues {
 public:
  void make_qp(rdma_cm_id* id) {
    if (cq_ == nullptr) {
      cq_ = ibv_create_cq(id->verbs, 1024, nullptr, nullptr, 0);
      must(cq_ != nullptr, "ibv_create_cq");
    }
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    must(rdma_create_qp(id, nullptr, &attr) == 0, "rdma_create_qp");
  }

 private:
  ibv_cq* cq_ = nullptr;
};

rdma_conn_param parameters() {
  rdma_conn_param param{};
  param.responder_resources = param.initiator_depth = 1;
  param.retry_count = param.rnr_retry_count = 7;
  return param;
}

void close_id(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  (void)rdma_destroy_id(id);
}

void serve_rdma(const char* port) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* listener = nullptr;
  must(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_in address = address_of("0.0.0.0", port);
  must(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
  must(rdma_listen(listener, 1024) == 0, "rdma_listen");
  must(::fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
  std::puts("ready");
  std::fflush(stdout);
  Queues queues;
  const double before = memory();
  long held = 0;
  for (;;) {
    pollfd both[2] = {{channel->fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    (void)::poll(both, 2, -1);
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel, &event) == 0) {
      rdma_cm_id* const id = event->id;
      const auto kind = event->event;
      (void)rdma_ack_cm_event(event);
      if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
        queues.make_qp(id);
        rdma_conn_param param = parameters();
        if (rdma_accept(id, &param) != 0) close_id(id);
      } else if (kind == RDMA_CM_EVENT_ESTABLISHED) {
        ++held;
      } else if (kind == RDMA_CM_EVENT_DISCONNECTED) {
        --held;
        (void)rdma_disconnect(id);
        close_id(id);
      } else if (kind != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
        close_id(id);
      }
    }
    if (both[1].revents == 0) continue;
    std::printf("%.0f\n", held > 0 ? (memory() - before) / static_cast<double>(held) : 0);
    return;
  }
}

void call_rdma(const char* ip, const char* port, uint32_t count, uint32_t at_once, uint32_t held) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  sockaddr_in address = address_of(ip, port);
  Queues queues;
  std::unordered_map<rdma_cm_id*, double> begun;
  uint32_t started = 0;
  const auto start = [&] {
    ++started;
    const double now = seconds();
    rdma_cm_id* id = nullptr;
    must(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    begun[id] = now;
    must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) == 0,
         "rdma_resolve_addr");
  };
  Tally tally(count, held);
  while (started < std::min(at_once, count)) start();
  while (!tally.complete()) {
    rdma_cm_event* event = nullptr;
    must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    rdma_cm_id* const id = event->id;
    const auto kind = event->event;
    (void)rdma_ack_cm_event(event);
    switch (kind) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        must(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
        break;
      case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        queues.make_qp(id);
        rdma_conn_param param = parameters();
        must(rdma_connect(id, &param) == 0, "rdma_connect");
        break;
      }
      case RDMA_CM_EVENT_ESTABLISHED:
        if (!tally.stands(seconds() - begun[id])) {
          (void)rdma_disconnect(id);
          close_id(id);
        }
        begun.erase(id);
        if (started < count) start();
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
      default:                          std::fprintf(stderr, "%s\n", rdma_event_str(kind)); std::exit(1);
    }
  }
  tally.print();
}

// ---- plain TCP

void serve_tcp(const char* port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  const int on = 1;
  (void)::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = address_of("0.0.0.0", port);
  must(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  must(::listen(listener, 1024) == 0, "listen");
  const int epoll = ::epoll_create1(0);
  const auto watch = [&](int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    must(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  };
  watch(listener);
  watch(STDIN_FILENO);
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    epoll_event events[64];
    const int got = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < got; ++i) {
      const int fd = events[i].data.fd;
      if (fd == STDIN_FILENO) {
        std::puts("0");
        return;
      }
      if (fd != listener) {
        (void)::close(fd);
        continue;
      }
      for (int taken = ::accept(listener, nullptr, nullptr); taken >= 0;
           taken = ::accept(listener, nullptr, nullptr)) {
        watch(taken);
      }
    }
  }
}

void call_tcp(const char* ip, const char* port, uint32_t count, uint32_t at_once, uint32_t held) {
  sockaddr_in address = address_of(ip, port);
  const int epoll = ::epoll_create1(0);
  std::unordered_map<int, double> begun;
  uint32_t started = 0;
  const auto start = [&] {
    ++started;
    const double now = seconds();
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(fd >= 0, "socket");
    // No thousands of ports in TIME_WAIT.
    const linger reset{1, 0};
    (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    const bool done = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    must(done || errno == EINPROGRESS, "connect");
    begun[fd] = now;
    epoll_event event{.events = EPOLLOUT, .data = {.fd = fd}};
    must(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  };
  Tally tally(count, held);
  while (started < std::min(at_once, count)) start();
  while (!tally.complete()) {
    epoll_event events[64];
    const int got = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < got; ++i) {
      const int fd = events[i].data.fd;
      int error = 0;
      socklen_t length = sizeof error;
      (void)::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
      errno = error;
      must(error == 0, "connect");
      (void)::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
      if (!tally.stands(seconds() - begun[fd])) (void)::close(fd);
      begun.erase(fd);
      if (started < count) start();
    }
  }
  tally.print();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string role = argc > 2 ? argv[1] : "";
  const bool rdma = argc > 2 && std::string(argv[2]) == "rdma";
  if (role == "serve" && argc == 4) {
    (rdma ? serve_rdma : serve_tcp)(argv[3]);
    return 0;
  }
  if (role == "call" && argc == 8) {
    const auto number = [&](int i) { return static_cast<uint32_t>(std::atoi(argv[i])); };
    (rdma ? call_rdma : call_tcp)(argv[3], argv[4], number(5), number(6), number(7));
    return 0;
  }
  std::fprintf(
      stderr,
      "connect serve rdma|tcp PORT\nconnect call rdma|tcp ADDRESS PORT COUNT AT-ONCE HELD\n");
  return 2;
}
