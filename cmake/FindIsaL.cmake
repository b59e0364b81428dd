# SPDX-License-Identifier: Apache-2.0
# Intel's storage acceleration library, whose checksums benchmarks compare ours with.
find_path(IsaL_INCLUDE_DIR NAMES isa-l/crc.h)
find_library(IsaL_LIBRARY NAMES isal)
mark_as_advanced(IsaL_INCLUDE_DIR IsaL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(IsaL
  REQUIRED_VARS IsaL_LIBRARY IsaL_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian: apt-get install libisal-dev")

if(IsaL_FOUND AND NOT TARGET IsaL::isal)
  add_library(IsaL::isal UNKNOWN IMPORTED)
  set_target_properties(IsaL::isal PROPERTIES
    IMPORTED_LOCATION ${IsaL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${IsaL_INCLUDE_DIR})
endif()
