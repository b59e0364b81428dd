// SPDX-License-Identifier: Apache-2.0
// Redis and memcached by their own text protocols, over TCP on loopback. A client sends `depth`
// requests, and one more for each answer.
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/unique_fd.h"
#include "common/ends.h"
#include "load.h"

namespace verbena::bench {
namespace {

[[noreturn]] void give_up(const char* why) {
  std::perror(why);
  std::exit(1);
}

UniqueFd connect_to(uint16_t port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    give_up("connect");
  }
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

// How requests look, and how an answer ends.
struct Dialect {
  std::function<std::string(const std::string& key, size_t bytes)> set;  // before the value
  std::string set_end;                                                   // behind it
  std::function<std::string(const std::string& key)> get;
  // Of an answer to a get: a line with the length as its last word, the value, this.
  std::string get_end;
};

class TcpClient {
 public:
  TcpClient(const Load& load, uint16_t port, const Dialect& dialect, uint32_t number)
      : load_(load), dialect_(dialect), socket_(connect_to(port)), value_(load.bytes, 'x'),
        input_(size_t{1} << 18) {
    for (uint32_t i = 0; i < kPlaces; ++i) {
      keys_.push_back(fmt::format("bench:{}:{}", number, i));
      send_request(true, i);
      take_answer(true);
    }
  }

  uint64_t run(const std::atomic<bool>& stop) {
    uint64_t sent = 0;
    uint64_t count = 0;
    while (sent < load_.depth) send_request(load_.write, sent++);
    while (!stop.load(std::memory_order_relaxed)) {
      take_answer(load_.write);
      ++count;
      send_request(load_.write, sent++);
    }
    for (; count < sent; ++count) take_answer(load_.write);
    return count;
  }

 private:
  void send_request(bool write, uint64_t i) {
    const std::string& key = keys_[i % kPlaces];
    std::string head = write ? dialect_.set(key, value_.size()) : dialect_.get(key);
    std::vector<iovec> parts{{head.data(), head.size()}};
    std::string end = dialect_.set_end;
    if (write) {
      parts.push_back({value_.data(), value_.size()});
      parts.push_back({end.data(), end.size()});
    }
    for (size_t first = 0; first < parts.size();) {
      msghdr message{};
      message.msg_iov = &parts[first];
      message.msg_iovlen = parts.size() - first;
      ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (sent < 0) give_up("send");
      while (first < parts.size() && static_cast<size_t>(sent) >= parts[first].iov_len) {
        sent -= static_cast<ssize_t>(parts[first++].iov_len);
      }
      if (first < parts.size()) {
        parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + sent;
        parts[first].iov_len -= static_cast<size_t>(sent);
      }
    }
  }

  void receive() {
    begin_ = end_ = 0;
    const ssize_t got = recv(socket_.get(), input_.data(), input_.size(), 0);
    if (got <= 0) give_up("receive");
    end_ = static_cast<size_t>(got);
  }
  std::string take_line() {
    std::string line;
    for (;;) {
      if (begin_ == end_) receive();
      const auto* const from = input_.data() + begin_;
      const auto* const found = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_));
      const size_t length = found != nullptr ? static_cast<size_t>(found - from) + 1 : end_ - begin_;
      line.append(from, length);
      begin_ += length;
      if (found != nullptr) return line;
    }
  }
  // As a program that uses the value would have it: copied to where it is wanted.
  void take_value(size_t bytes) {
    for (size_t done = 0; done < bytes;) {
      if (begin_ == end_) receive();
      const size_t length = std::min(bytes - done, end_ - begin_);
      std::memcpy(value_.data() + done, input_.data() + begin_, length);
      begin_ += length;
      done += length;
    }
  }
  void take_answer(bool write) {
    const std::string line = take_line();
    if (line[0] == '-' || line.starts_with("SERVER_ERROR") || line.starts_with("ERROR")) {
      std::fprintf(stderr, "%s", line.c_str());
      std::exit(1);
    }
    if (write) return;
    size_t at = line.find_last_of(" $") + 1;
    size_t bytes = 0;
    std::from_chars(line.data() + at, line.data() + line.size(), bytes);
    if (bytes != value_.size()) give_up("the answer has another length");
    take_value(bytes);
    for (size_t rest = dialect_.get_end.size(); rest > 0; --rest) {
      if (begin_ == end_) receive();
      ++begin_;
    }
  }

  Load load_;
  const Dialect& dialect_;
  UniqueFd socket_;
  std::vector<char> value_;
  std::vector<std::string> keys_;
  std::vector<char> input_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

double through(const Load& load, uint16_t port, const Dialect& dialect) {
  std::vector<std::unique_ptr<TcpClient>> clients;
  for (uint32_t i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<TcpClient>(load, port, dialect, i));
  }
  return run_all(load, clients);
}

}  // namespace

double through_redis(const Load& load, uint16_t port) {
  const Dialect dialect{
      [](const std::string& key, size_t bytes) {
        return fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, bytes);
      },
      "\r\n",
      [](const std::string& key) {
        return fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key);
      },
      "\r\n"};
  return through(load, port, dialect);
}

double through_memcached(const Load& load, uint16_t port) {
  const Dialect dialect{
      [](const std::string& key, size_t bytes) { return fmt::format("set {} 0 0 {}\r\n", key, bytes); },
      "\r\n", [](const std::string& key) { return fmt::format("get {}\r\n", key); },
      "\r\nEND\r\n"};
  return through(load, port, dialect);
}

}  // namespace verbena::bench
