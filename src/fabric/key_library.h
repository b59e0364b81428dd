// SPDX-License-Identifier: Apache-2.0
// libmlx5, loaded at run time like the others: memory keys whose range is made of equal parts of
// other memory, with CRCs that the device makes and checks (docs/memory-keys.md).
#pragma once

#include <string>

#include <infiniband/mlx5dv.h>

namespace verbena::fabric {

struct KeyLibrary {
  decltype(&::mlx5dv_is_supported) is_supported;
  decltype(&::mlx5dv_create_qp) create_qp;
  decltype(&::mlx5dv_qp_ex_from_ibv_qp_ex) qp_ex_from_ibv_qp_ex;
  decltype(&::mlx5dv_create_mkey) create_mkey;
  decltype(&::mlx5dv_destroy_mkey) destroy_mkey;
  decltype(&::_mlx5dv_mkey_check) mkey_check;
  decltype(&::ibv_qp_to_qp_ex) qp_to_qp_ex;

  // From where VerbsLibrary::load() has the others; after it. nullptr: there is none.
  [[nodiscard]] static const KeyLibrary* load(const std::string& folder);
};

}  // namespace verbena::fabric
