// SPDX-License-Identifier: Apache-2.0
// Keys of a device that make equal parts of memory, at equal distances, one range of bytes: a work
// request takes the data of a whole run of chunks by one entry. If asked for, each part has a CRC
// behind it, at a fixed distance from its beginning, which the device makes when it writes the part
// and checks when it reads it:
//
//   memory  | part 0 ........ |   | crc |   | part 1 ........ |   | crc |   ...
//   range   | part 0 ........ | part 1 ........ | ...             from address 0
//
// Configuring a key is a work request before the one that uses it, on the same queue pair. Keys are
// made when they are needed, up to a number, and used again. Owned by the fabric's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "fabric/fabric.h"
#include "fabric/key_library.h"

namespace verbena::fabric {

class PartKeys {
 public:
  using Handle = mlx5dv_mkey*;

  // nullptr: the device has none.
  [[nodiscard]] static std::unique_ptr<PartKeys> open(const KeyLibrary& library, ibv_pd* domain,
                                                      size_t most);
  ~PartKeys();
  PartKeys(const PartKeys&) = delete;
  PartKeys& operator=(const PartKeys&) = delete;

  // As ibv_create_qp; keys can be configured on it.
  [[nodiscard]] ibv_qp* create_queue_pair(const ibv_qp_init_attr& init) const;
  // Whether a key can have such parts.
  [[nodiscard]] static bool fits(const Local& local);
  // CRCs of parts of this size.
  [[nodiscard]] static bool makes_crcs_of(uint32_t bytes);

  // nullptr: all are in use.
  [[nodiscard]] Handle take();
  void give(Handle key) { free_.push_back(key); }
  [[nodiscard]] static uint32_t lkey_of(Handle key) { return key->lkey; }
  // Posts the request that makes `key` the range of these parts. False: it cannot be posted.
  [[nodiscard]] bool configure(ibv_qp* qp, Handle key, const Local& local, uint32_t lkey,
                               uint64_t work_id) const;
  // Whether all CRCs that were checked since the last call were right.
  [[nodiscard]] bool crcs_were_right(Handle key) const;

 private:
  PartKeys(const KeyLibrary& library, ibv_pd* domain, size_t most)
      : library_(library), domain_(domain), most_(most) {}

  const KeyLibrary& library_;
  ibv_pd* const domain_;
  const size_t most_;
  std::vector<Handle> all_;
  std::vector<Handle> free_;
};

}  // namespace verbena::fabric
