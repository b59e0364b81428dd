// SPDX-License-Identifier: Apache-2.0
#include "identity/identity.h"

#include <array>
#include <cstring>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/endian.h"

namespace verbena::identity {

Identity identity_of(Kind kind) {
  if (kind == Kind::kConnectX) {
    // A ConnectX-5, the first whose numbers every mlx5 program of Debian 12 knows.
    return {.vendor_id = 0x02c9,
            .part_id = 4119,
            .firmware = "16.35.4030",
            .board = "MT_0000000012",
            .type = "MT4119"};
  }
  // Locally administered, as no registered vendor's is.
  return {.vendor_id = 0x020056,
          .part_id = 1,
          .firmware = VERBENA_VERSION,
          .board = "verbena",
          .type = "verbena"};
}

uint64_t node_guid() {
  // Of the machine's id; of the host's name where there is none. Not the id itself, which is kept
  // from others.
  std::array<uint8_t, 128> seed{};
  size_t length = 0;
  const int fd = ::open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t got = ::read(fd, seed.data(), 64);
    if (got > 0) length = static_cast<size_t>(got);
    ::close(fd);
  }
  if (length == 0) {
    utsname name{};
    ::uname(&name);
    length = std::strlen(name.nodename);
    std::memcpy(seed.data(), name.nodename, length);
  }
  const uint32_t low = crc32({seed.data(), length});
  seed[length] = 'v';
  const uint32_t high = crc32({seed.data(), length + 1});
  std::array<uint8_t, 8> guid{0x02,
                              static_cast<uint8_t>(high >> 16),
                              static_cast<uint8_t>(high >> 8),
                              static_cast<uint8_t>(high),
                              0,
                              0,
                              0,
                              0};
  store_be32(guid.data() + 4, low);
  uint64_t value = 0;
  std::memcpy(&value, guid.data(), sizeof value);
  return value;
}

}  // namespace verbena::identity
