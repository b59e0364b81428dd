// SPDX-License-Identifier: Apache-2.0
#include "wire/gid.h"

#include <arpa/inet.h>

namespace verbena::wire {

std::string to_string(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.ipv4(), text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  }
  return text;
}

}  // namespace verbena::wire
