// SPDX-License-Identifier: Apache-2.0
// What programs may ask of the library itself: sysfs, fork, rates.
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "identity/identity.h"
#include "verbs/identity.h"
#include "verbs/objects.h"

using namespace verbena;
using namespace verbena::verbs;

namespace {

struct Rate {
  ibv_rate rate;
  int mult;  // of 2.5 Gb/s; 0: none
  int mbps;
};
constexpr std::array<Rate, 23> kRates{
    {{IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
     {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
     {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
     {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
     {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_28_GBPS, 11, 28125},
     {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
     {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
     {IBV_RATE_1200_GBPS, 480, 1275000}, {IBV_RATE_14_GBPS, 0, 14062},
     {IBV_RATE_56_GBPS, 0, 56250},       {IBV_RATE_112_GBPS, 0, 112500},
     {IBV_RATE_168_GBPS, 0, 168750},     {IBV_RATE_25_GBPS, 0, 25781},
     {IBV_RATE_100_GBPS, 0, 103125},     {IBV_RATE_200_GBPS, 0, 206250},
     {IBV_RATE_300_GBPS, 0, 309375}}};

}  // namespace

VERBENA_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate && known.mult != 0) return known.mult;
  }
  return -1;
}

VERBENA_EXPORT ibv_rate mult_to_ibv_rate(int mult) {
  for (const Rate& known : kRates) {
    if (known.mult == mult && mult != 0) return known.rate;
  }
  return IBV_RATE_MAX;
}

VERBENA_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& known : kRates) {
    if (known.rate == rate) return known.mbps;
  }
  return -1;
}

VERBENA_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& known : kRates) {
    if (known.mbps == mbps) return known.rate;
  }
  return IBV_RATE_MAX;
}

// Programs read a few files of the device by these: there is no such directory, so the answers come
// from here.
VERBENA_EXPORT int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer,
                                       size_t size) {
  if (directory == nullptr || file == nullptr || buffer == nullptr) return -1;
  if (std::string_view(directory) == the_device()->ibdev_path &&
      std::string_view(file) == "board_id") {
    const int n =
        std::snprintf(buffer, size, "%s", identity::identity_of(identity::settings().kind).board);
    return n < static_cast<int>(size) ? n : -1;
  }
  return -1;
}

VERBENA_EXPORT const char* ibv_get_sysfs_path(void) { return "/sys"; }

// Memory is not pinned: a forked child may do with its copy what it likes.
VERBENA_EXPORT int ibv_fork_init(void) { return 0; }
VERBENA_EXPORT ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
VERBENA_EXPORT int ibv_dontfork_range(void*, size_t) { return 0; }
VERBENA_EXPORT int ibv_dofork_range(void*, size_t) { return 0; }
