// SPDX-License-Identifier: Apache-2.0
// Members of a host as real processes, forked from the test before it has threads. A member joins,
// then serves its sockets until it is told to leave or is killed; what it saw lies in memory shared
// with the test.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/endian.h"
#include "base/random.h"
#include "link/clock.h"
#include "link/membership.h"
#include "link/shared_table.h"
#include "link/unix_names.h"

namespace verbena::link::testing {

inline constexpr size_t kMaxIds = 1 << 16;
inline constexpr int kPatienceMs = 60'000;

// What one member tells the test.
struct Report {
  enum State : uint32_t { kStarting, kJoined, kFailed, kLeft };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> slot;
  std::atomic<uint32_t> error;  // MembershipError::Kind
  std::array<char, 256> message;
  std::atomic<uint32_t> leave;  // by the test: please go
  std::atomic<uint64_t> received;
  std::atomic<uint64_t> misdelivered;
  std::atomic<uint64_t> forwarded;
  std::atomic<uint64_t> taken_over;
  std::atomic<uint64_t> corrected;
  std::atomic<uint32_t> overflow;
  std::atomic<uint32_t> members;
  std::atomic<uint64_t> bytes;  // received, or sent by a blaster
  std::atomic<uint64_t> refused;
  std::atomic<uint32_t> stage;  // a test's own
};

struct Shared {
  std::array<Report, 512> reports;
  std::array<std::atomic<uint8_t>, kMaxIds> seen;    // by packet id: the slot that got it
  std::array<std::atomic<uint8_t>, kMaxIds> copies;  // how often
};

// Serves a Membership as an engine does.
class Server final : public DatagramHandler {
 public:
  Server(Membership& host, Report& report, Shared& shared)
      : host_(host), report_(report), shared_(shared) {}

  void on_datagram(const Datagram& datagram) override {
    // Counted before it goes on to its owner, so that who sees it there sees the count too.
    const bool probe = datagram.bytes[5] == kProbeSlot;
    if (!probe) ++report_.misdelivered;
    if (!host_.route(datagram)) return;
    if (!probe) --report_.misdelivered;
    if (datagram.bytes.size() < 16) return;
    const uint8_t slot = datagram.bytes[5];
    ++report_.received;
    report_.bytes += datagram.bytes.size();
    const uint32_t id = load_be32(datagram.bytes.data() + 8);
    if (id < kMaxIds) {
      ++shared_.copies[id];
      shared_.seen[id] = slot;  // last: the test waits for it
    }
  }
  [[nodiscard]] uint32_t on_joined(const Datagram& rest, uint32_t segment) override {
    const uint32_t others = host_.route_joined(rest, segment);
    report_.misdelivered += others;
    return others;
  }
  void on_consumed(const Datagram& datagram, uint32_t cost) override {
    host_.consumed(datagram, cost);
  }

  // One pass; sleeps at most `wait_ms`.
  void serve(int wait_ms) {
    std::array<pollfd, 3> fds{pollfd{host_.fd(), POLLIN, 0},
                              pollfd{host_.ipv4()->receive.get(), POLLIN, 0},
                              pollfd{host_.ipv6() ? host_.ipv6()->receive.get() : -1, POLLIN, 0}};
    (void)::poll(fds.data(), fds.size(), wait_ms);
    if (fds[0].revents != 0) host_.on_ready(*this);
    host_.begin_look();
    size_t got = receiver4_.receive(host_.ipv4()->receive.get(), Family::kIpv4, *this,
                                    UdpReceiver::Ask::kBatch);
    if (host_.ipv6() != nullptr)
      got += receiver6_.receive(host_.ipv6()->receive.get(), Family::kIpv6, *this,
                                UdpReceiver::Ask::kBatch);
    if (got == 0) host_.found_empty(monotonic_now());
    report_.overflow = receiver4_.counters().overflow + receiver6_.counters().overflow;
    report_.forwarded = host_.counters().forwarded;
    report_.taken_over = host_.counters().taken_over;
    report_.corrected = host_.counters().corrected;
    report_.members = host_.members();
  }

 private:
  Membership& host_;
  Report& report_;
  Shared& shared_;
  UdpReceiver receiver4_;
  UdpReceiver receiver6_;
};

class MembershipTest : public ::testing::Test {
 public:
  using Body = std::function<void(Membership&, Report&, Shared&)>;
  struct Member {
    pid_t pid = -1;
    Report* report = nullptr;
    [[nodiscard]] uint8_t slot() const { return static_cast<uint8_t>(report->slot.load()); }
  };

 protected:
  MembershipTest() {
    options_.udp.port = static_cast<uint16_t>(20'000 + (::getpid() * 7 + next_port_++) % 6'000);
    options_.group = "vtest" + std::to_string(::getpid()) + "-" + std::to_string(next_port_);
    options_.slot_rest = 0;
    void* const at =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = static_cast<Shared*>(at);
  }
  ~MembershipTest() override {
    for (const Member& member : alive_) {
      ::kill(member.pid, SIGKILL);
      ::waitpid(member.pid, nullptr, 0);
    }
    ::munmap(shared_, sizeof(Shared));
  }

  // The usual life of a member.
  static void serve_until_told(Membership& host, Report& report, Shared& shared) {
    Server server(host, report, shared);
    while (report.leave == 0) server.serve(5);
  }

  // Starts a member. `before` runs in the child ahead of the join.
  Member start(const Body& body = serve_until_told, const std::function<void()>& before = {}) {
    Report* const report = &shared_->reports[next_report_++];
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      if (before) before();
      run_member(*report, body);
      ::_exit(0);
    }
    const Member member{pid, report};
    alive_.push_back(member);
    return member;
  }
  void run_member(Report& report, const Body& body) {
    SeededRandom random(static_cast<uint64_t>(::getpid()) * 0x9e3779b97f4a7c15 + 1);
    auto host = Membership::join(options_, random);
    if (!host) {
      report.error = static_cast<uint32_t>(host.error().kind);
      std::strncpy(report.message.data(), host.error().what.c_str(), report.message.size() - 1);
      report.state = Report::kFailed;
      return;
    }
    report.slot = (*host)->slot();
    report.state = Report::kJoined;
    body(**host, report, *shared_);
    host->reset();
    report.state = Report::kLeft;
  }
  [[nodiscard]] static bool wait_until(const std::function<bool()>& condition,
                                       int bound_ms = kPatienceMs) {
    const Time deadline = monotonic_now() + bound_ms * kMillisecond;
    while (!condition()) {
      if (monotonic_now() > deadline) return false;
      ::usleep(500);
    }
    return true;
  }
  [[nodiscard]] static bool settled(const Member& member) {
    return wait_until([&] { return member.report->state != Report::kStarting; });
  }
  Member start_joined(const Body& body = serve_until_told,
                      const std::function<void()>& before = {}) {
    const Member member = start(body, before);
    EXPECT_TRUE(settled(member));
    EXPECT_EQ(member.report->state, Report::kJoined) << member.report->message.data();
    return member;
  }
  void end(const Member& member, int signal) {
    ::kill(member.pid, signal);
    reap(member);
  }
  // Not while it holds the group's lock: nobody could join.
  void stop(const Member& member) {
    const GroupLock lock = take_lock();
    ::kill(member.pid, SIGSTOP);
    ::waitpid(member.pid, nullptr, WUNTRACED);
  }
  [[nodiscard]] GroupLock take_lock() const {
    auto lock =
        GroupLock::take(GroupNames(options_.group, options_.udp.port), kPatienceMs * kMillisecond);
    VERBENA_CHECK(lock);
    return std::move(*lock);
  }
  void leave(const Member& member) {
    member.report->leave = 1;
    reap(member);
  }
  void reap(const Member& member) {
    ::waitpid(member.pid, nullptr, 0);
    std::erase_if(alive_, [&](const Member& m) { return m.pid == member.pid; });
  }

  // A datagram as a transport packet begins: slot in byte 5, our id in bytes 8..11.
  void send_to(uint8_t slot, uint32_t id, Family family = Family::kIpv4) {
    std::array<uint8_t, 64> bytes{};
    bytes[5] = slot;
    store_be32(bytes.data() + 8, id);
    const bool v4 = family == Family::kIpv4;
    // A socket each, so that the kernel's hash differs from packet to packet.
    const UniqueFd fd(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(options_.udp.port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(options_.udp.port);
    in6.sin6_addr = in6addr_loopback;
    (void)::sendto(
        fd.get(), bytes.data(), bytes.size(), 0,
        v4 ? reinterpret_cast<const sockaddr*>(&in) : reinterpret_cast<const sockaddr*>(&in6),
        v4 ? sizeof in : sizeof in6);
  }
  struct Sent {
    uint32_t id;
    uint8_t slot;
  };
  // So many packets of `bytes` in one datagram, as the kernel joins them.
  [[nodiscard]] std::vector<Sent> send_joined(uint8_t slot, uint32_t count, size_t bytes) {
    std::vector<Sent> sent;
    std::vector<uint8_t> all(count * bytes);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t id = next_id_++ % kMaxIds;
      all[i * bytes + 5] = slot;
      store_be32(all.data() + i * bytes + 8, id);
      sent.push_back({id, slot});
    }
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int segment = static_cast<int>(bytes);
    EXPECT_EQ(::setsockopt(fd.get(), SOL_UDP, kUdpSegment, &segment, sizeof segment), 0);
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(options_.udp.port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::sendto(fd.get(), all.data(), all.size(), 0, reinterpret_cast<const sockaddr*>(&in),
                       sizeof in),
              static_cast<ssize_t>(all.size()));
    return sent;
  }
  // One packet per family to each.
  [[nodiscard]] std::vector<Sent> send_round(const std::vector<Member>& members) {
    std::vector<Sent> sent;
    for (const Member& member : members) {
      for (const Family family : {Family::kIpv4, Family::kIpv6}) {
        const uint32_t id = next_id_++ % kMaxIds;
        shared_->seen[id] = 0;
        shared_->copies[id] = 0;
        sent.push_back({id, member.slot()});
        send_to(member.slot(), id, family);
      }
    }
    return sent;
  }
  [[nodiscard]] bool all_arrive(const std::vector<Sent>& sent, int bound_ms = kPatienceMs) {
    return wait_until(
        [&] { return std::ranges::all_of(sent, [&](Sent s) { return shared_->seen[s.id] != 0; }); },
        bound_ms);
  }
  void expect_owners_saw(const std::vector<Sent>& sent) {
    for (const auto& [id, slot] : sent) {
      EXPECT_EQ(shared_->seen[id], slot);
      EXPECT_EQ(shared_->copies[id], 1);
    }
  }
  // Sends a round, and waits until each was seen by its owner, once.
  void expect_delivery(const std::vector<Member>& members) {
    const std::vector<Sent> sent = send_round(members);
    EXPECT_TRUE(all_arrive(sent));
    expect_owners_saw(sent);
  }
  // A change of members takes its time to be known to all; then rounds go straight to the owners,
  // so many without one packet by way of another member.
  void expect_straight_delivery_soon(const std::vector<Member>& members, int rounds) {
    EXPECT_TRUE(wait_until([&] {
      const uint64_t before = total_misdelivered(members);
      for (int i = 0; i < rounds; ++i) {
        // One that fell to a stopped member stays there: not for long is it waited for.
        const std::vector<Sent> sent = send_round(members);
        if (!all_arrive(sent, 1000)) return false;
        expect_owners_saw(sent);
      }
      return total_misdelivered(members) == before;
    }));
    expect_delivery(members);
  }
  // Lines of /proc/net/unix with this group's names.
  [[nodiscard]] size_t names_left() const {
    std::ifstream file("/proc/net/unix");
    size_t count = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.find("@" + options_.group + ".") != std::string::npos) ++count;
    }
    return count;
  }
  // Whether a socket is left on the group's port.
  [[nodiscard]] bool port_left() const {
    std::array<char, 8> port{};
    (void)std::snprintf(port.data(), port.size(), ":%04X ", options_.udp.port);
    for (const char* const path : {"/proc/net/udp", "/proc/net/udp6"}) {
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        if (line.find(port.data()) != std::string::npos) return true;
      }
    }
    return false;
  }
  [[nodiscard]] uint64_t total_misdelivered(const std::vector<Member>& members) const {
    uint64_t sum = 0;
    for (const Member& member : members) sum += member.report->misdelivered;
    return sum;
  }

  MembershipOptions options_;
  Shared* shared_ = nullptr;
  std::vector<Member> alive_;

 private:
  static inline uint32_t next_port_ = 0;
  size_t next_report_ = 0;
  uint32_t next_id_ = 1;
};

}  // namespace verbena::link::testing
