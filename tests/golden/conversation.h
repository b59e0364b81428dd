// SPDX-License-Identifier: Apache-2.0
// The conversations in a capture: the requests that one queue pair received, the answers it gave,
// and what must have been true of it for these answers: its MTU, its rights, its memory and what
// was in it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "golden/capture.h"
#include "golden/notes.h"
#include "wire/gid.h"
#include "wire/packet.h"

namespace verbena::golden {

struct Message {
  size_t frame = 0;
  Time time = 0;
  wire::PacketView packet;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
};

// What one R_Key must have led to.
struct KnownRegion {
  uint64_t start = 0;
  std::vector<uint8_t> content;  // when the capture begins; zero where nothing tells
};

// A byte that the responder's own program changed before a READ found it so.
struct Change {
  uint32_t rkey = 0;
  uint64_t address = 0;
  uint8_t value = 0;
};

struct Conversation {
  wire::Service service = wire::Service::kRc;
  wire::Gid requester;
  wire::Gid responder;
  Qpn responder_qpn;
  Qpn requester_qpn;  // 0: nothing was answered
  std::vector<Message> requests;
  std::vector<Message> answers;

  // Inferred.
  uint32_t mtu = 1024;
  uint32_t access = 0;  // memory::Access
  uint8_t rnr_timer = 0;
  std::map<uint32_t, KnownRegion> regions;        // by the capture's R_Key
  std::map<size_t, std::vector<Change>> changes;  // by the frame of the READ that found them
  std::map<uint32_t, size_t> rnr_naks;            // by PSN
  std::set<uint32_t> repeated;   // PSNs of responses that were asked for more than once
  bool ends_unanswered = false;  // the capture stops before the last answer

  // Not empty: why it cannot be compared.
  std::string unusable;
};

[[nodiscard]] std::vector<Conversation> find_conversations(const Capture& capture);

}  // namespace verbena::golden
