// SPDX-License-Identifier: Apache-2.0
// Drives queue pairs of the Verbena device by JSON lines over TCP, one connection each. It
// understands the requests of agent.py, which drives those of the peer, so that a script can put
// the two opposite each other: open, connect, recv, send, poll, peek, poke, state, close; and
// `counters`.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/device.h"

namespace verbena {
namespace {

using nlohmann::json;
using transport::SendOp;

constexpr uint32_t kQkey = 0x11111111;

[[nodiscard]] std::string text_of(const wire::Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  return text.data();
}

[[nodiscard]] wire::Gid gid_of(const std::string& text) {
  wire::Gid gid;
  if (::inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) != 1) {
    throw std::runtime_error("not a GID: " + text);
  }
  return gid;
}

void must(int error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

class Agent {
 public:
  Agent() : context_(*device::Device::acquire({})) {}
  ~Agent() {
    if (qp_) (void)context_.destroy_qp(*qp_);
    if (mr_) (void)context_.dereg_mr(*mr_);
    if (cq_) (void)context_.destroy_cq(*cq_);
    if (pd_) (void)context_.dealloc_pd(*pd_);
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  json handle(const json& request) {
    const std::string what = request.at("do");
    if (what == "open") return open(request);
    if (what == "connect") return connect(request);
    if (what == "recv") return recv(request);
    if (what == "send") return send(request);
    if (what == "poll") return poll(request);
    if (what == "peek") return peek(request);
    if (what == "poke") return poke(request);
    if (what == "state") return {{"state", static_cast<int>(context_.query_qp(*qp_)->state)}};
    if (what == "counters") return counters();
    throw std::runtime_error("unknown request " + what);
  }

 private:
  json open(const json& request) {
    const std::string type = request.value("qpt", "RC");
    type_ = type == "RC"   ? transport::QpType::kRc
            : type == "UC" ? transport::QpType::kUc
                           : transport::QpType::kUd;
    const auto depth = request.value("depth", 64u);
    qp_access_ = request.value("qp_access", 15u);
    memory_.resize(request.value("mr_len", 65536u));
    pd_ = *context_.alloc_pd();
    cq_ = *context_.create_cq(4 * depth, nullptr);
    auto mr = context_.reg_mr(*pd_, memory_.data(), memory_.size(),
                              reinterpret_cast<uint64_t>(memory_.data()),
                              request.value("mr_access", 15u));
    if (!mr) throw std::runtime_error(std::strerror(mr.error()));
    mr_ = std::move(*mr);
    device::QpRequest init;
    init.type = type_;
    init.send_cq = init.recv_cq = cq_.get();
    init.send = {depth, 1, 64};
    init.max_recv_entries = depth;
    init.max_recv_sge = 1;
    init.signal_all = true;
    qp_ = *context_.create_qp(*pd_, init);
    const wire::Gid self = gid_of(request.at("address"));
    context_.device().gids().refresh();
    const auto index = context_.device().gids().find(self);
    if (!index) throw std::runtime_error("no such address on this host: " + text_of(self));
    gid_index_ = *index;
    psn_ = request.value("psn", context_.device().engine().draw_psn().value());
    if (type_ == transport::QpType::kUd) start_datagrams();
    return {{"qpn", qp_->qpn.value},   {"psn", psn_},
            {"gid", text_of(self)},    {"addr", reinterpret_cast<uint64_t>(memory_.data())},
            {"rkey", mr_->rkey.value}, {"len", memory_.size()}};
  }

  void start_datagrams() {
    transport::QpAttr attr;
    attr.qkey = kQkey;
    attr.port = 1;
    attr.sq_psn = wire::Psn(psn_);
    attr.state = transport::QpState::kInit;
    must(context_.modify_qp(*qp_, attr,
                            transport::kAttrState | transport::kAttrPkeyIndex |
                                transport::kAttrPort | transport::kAttrQkey),
         "INIT");
    attr.state = transport::QpState::kRtr;
    must(context_.modify_qp(*qp_, attr, transport::kAttrState), "RTR");
    attr.state = transport::QpState::kRts;
    must(context_.modify_qp(*qp_, attr, transport::kAttrState | transport::kAttrSqPsn), "RTS");
  }

  json connect(const json& request) {
    const auto path = context_.device().resolve(
        {.destination = gid_of(request.at("gid")), .source_index = gid_index_});
    if (!path) throw std::runtime_error("no path");
    path_ = *path;
    remote_qpn_ = Qpn(request.at("qpn"));
    if (type_ == transport::QpType::kUd) return json::object();
    static const std::map<int, transport::Mtu> kMtus = {{256, transport::Mtu::k256},
                                                        {512, transport::Mtu::k512},
                                                        {1024, transport::Mtu::k1024},
                                                        {2048, transport::Mtu::k2048},
                                                        {4096, transport::Mtu::k4096}};
    transport::QpAttr attr;
    attr.access = qp_access_;
    attr.port = 1;
    attr.path = path_;
    attr.mtu = kMtus.at(request.value("mtu", 1024));
    attr.dest_qpn = remote_qpn_;
    attr.rq_psn = wire::Psn(request.at("psn"));
    attr.sq_psn = wire::Psn(psn_);
    attr.max_rd_atomic = attr.max_dest_rd_atomic = request.value("rd_atomic", uint8_t{4});
    attr.min_rnr_timer = request.value("rnr_timer", uint8_t{12});
    attr.timeout = request.value("timeout", uint8_t{14});
    attr.retry_count = request.value("retry", uint8_t{7});
    attr.rnr_retry = request.value("rnr_retry", uint8_t{7});
    const bool rc = type_ == transport::QpType::kRc;
    attr.state = transport::QpState::kInit;
    must(context_.modify_qp(*qp_, attr,
                            transport::kAttrState | transport::kAttrPkeyIndex |
                                transport::kAttrPort | transport::kAttrAccess),
         "INIT");
    attr.state = transport::QpState::kRtr;
    must(context_.modify_qp(
             *qp_, attr,
             transport::kAttrState | transport::kAttrPath | transport::kAttrMtu |
                 transport::kAttrDestQpn | transport::kAttrRqPsn |
                 (rc ? transport::kAttrMaxDestRdAtomic | transport::kAttrMinRnrTimer : 0)),
         "RTR");
    attr.state = transport::QpState::kRts;
    must(context_.modify_qp(*qp_, attr,
                            transport::kAttrState | transport::kAttrSqPsn |
                                (rc ? transport::kAttrTimeout | transport::kAttrRetryCount |
                                          transport::kAttrRnrRetry | transport::kAttrMaxRdAtomic
                                    : 0)),
         "RTS");
    return json::object();
  }

  [[nodiscard]] memory::Sge sge(const json& request, uint32_t length) const {
    return {reinterpret_cast<uint64_t>(memory_.data()) + request.value("off", 0u), length,
            mr_->lkey};
  }

  json recv(const json& request) {
    const std::array<memory::Sge, 1> list{sge(request, request.value("len", 4096u))};
    const auto n = request.value("n", 1u);
    for (uint32_t i = 0; i < n; ++i) {
      must(context_.post_recv(*qp_, {request.value("wr_id", 100u) + i, list}), "post_recv");
    }
    return json::object();
  }

  json send(const json& request) {
    static const std::map<std::string, SendOp> kOps = {
        {"send", SendOp::kSend},     {"send_imm", SendOp::kSendImm},
        {"write", SendOp::kWrite},   {"write_imm", SendOp::kWriteImm},
        {"read", SendOp::kRead},     {"cas", SendOp::kCompareSwap},
        {"fadd", SendOp::kFetchAdd}, {"send_inv", SendOp::kSendInvalidate}};
    const std::array<memory::Sge, 1> list{sge(request, request.value("len", 0u))};
    const auto n = request.value("n", 1u);
    std::vector<transport::SendRequest> requests(n);
    for (uint32_t i = 0; i < n; ++i) {
      transport::SendRequest& send = requests[i];
      send.wr_id = request.value("wr_id", 1u) + i;
      send.op = kOps.at(request.at("op"));
      send.flags = transport::kSignaled | request.value("flags", 0u);
      send.list = list;
      send.imm =
          request.contains("imm") && !request["imm"].is_null() ? request["imm"].get<uint32_t>() : 0;
      send.remote_addr = RemoteAddr(request.value("raddr", uint64_t{0}));
      send.rkey = RKey(request.value("rkey", 0u));
      send.compare_add = request.value("cmp", uint64_t{0});
      send.swap = request.value("swap", uint64_t{0});
      send.path = path_;
      send.remote_qpn = remote_qpn_;
      send.remote_qkey = request.value("qkey", kQkey);
    }
    int error = 0;
    (void)context_.post_send(*qp_, requests, error);
    must(error, "post_send");
    return json::object();
  }

  json poll(const json& request) {
    const auto want = request.value("n", 1u);
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(request.value("timeout", 5.0));
    json list = json::array();
    while (list.size() < want && std::chrono::steady_clock::now() < end) {
      std::array<transport::Completion, 16> completions;
      const uint32_t got = context_.poll_cq(
          *cq_, std::span(completions).first(std::min<size_t>(16, want - list.size())));
      for (uint32_t i = 0; i < got; ++i) {
        const transport::Completion& c = completions[i];
        list.push_back({{"wr_id", c.wr_id},
                        {"status", static_cast<int>(c.status)},
                        {"op", static_cast<int>(c.opcode)},
                        {"len", c.byte_len},
                        {"imm", c.imm_or_rkey},
                        {"flags", c.flags},
                        {"src_qp", c.source_qpn.value}});
      }
      if (got == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return {{"wc", list}};
  }

  json peek(const json& request) {
    static constexpr const char* kDigits = "0123456789abcdef";
    const auto off = request.value("off", 0u);
    std::string hex;
    for (uint32_t i = 0; i < request.value("len", 64u); ++i) {
      const uint8_t byte = memory_.at(off + i);
      hex += kDigits[byte >> 4];
      hex += kDigits[byte & 15];
    }
    return {{"hex", hex}};
  }

  json poke(const json& request) {
    const std::string hex = request.at("hex");
    const auto off = request.value("off", 0u);
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      memory_.at(off + i / 2) = static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return json::object();
  }

  json counters() {
    json all = json::object();
    const device::Engine::Locked locked(context_.device().engine());
    for (size_t i = 0; i < transport::kCounters; ++i) {
      all[transport::kCounterName[i]] = locked.endpoint().counters().at(i);
    }
    const auto& transmit = context_.device().engine().link().transmit_counters();
    all["packets"] = transmit.packets;
    all["sends"] = transmit.sends;
    all["gso_refused"] = transmit.gso_refused;
    all["errors"] = transmit.errors;
    all["last_error"] = transmit.last_error;
    all["bad_icrc"] = context_.device().engine().link().intake_counters().bad_icrc;
    all["overflow"] = context_.device().engine().link().receive_counters().overflow;
    return all;
  }

  device::Context context_;
  transport::QpType type_ = transport::QpType::kRc;
  uint32_t qp_access_ = 0;
  uint32_t psn_ = 0;
  uint32_t gid_index_ = 0;
  std::vector<uint8_t> memory_;
  std::unique_ptr<device::Pd> pd_;
  std::unique_ptr<device::CompletionQueue> cq_;
  std::unique_ptr<device::Mr> mr_;
  std::unique_ptr<device::Qp> qp_;
  transport::Path path_;
  Qpn remote_qpn_;
};

void serve(int fd) {
  FILE* const stream = ::fdopen(fd, "r+");
  if (stream == nullptr) return;
  {
    std::unique_ptr<Agent> agent;
    char* line = nullptr;
    size_t capacity = 0;
    while (::getline(&line, &capacity, stream) > 0) {
      json answer;
      try {
        const json request = json::parse(line);
        if (request.at("do") == "close") break;
        if (!agent) agent = std::make_unique<Agent>();
        answer = agent->handle(request);
      } catch (const std::exception& problem) {
        answer = {{"error", problem.what()}};
      }
      const std::string text = answer.dump() + "\n";
      std::fwrite(text.data(), 1, text.size(), stream);
      std::fflush(stream);
    }
    std::free(line);
  }
  std::fclose(stream);
}

int run(uint16_t port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener < 0 ||
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 64) != 0) {
    std::perror("verbena_agent: cannot listen");
    return 1;
  }
  const auto device = device::Device::acquire({});
  if (!device) {
    std::fprintf(stderr, "verbena_agent: %s\n", device.error().what.c_str());
    return 1;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return 1;
    std::thread(serve, fd).detach();
  }
}

}  // namespace
}  // namespace verbena

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(
        stderr,
        "usage: verbena_agent TCP_PORT\nServes queue pairs of the device to a test script.\n");
    return 2;
  }
  return verbena::run(static_cast<uint16_t>(std::atoi(argv[1])));
}
