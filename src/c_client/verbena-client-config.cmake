# SPDX-License-Identifier: Apache-2.0
# find_package(verbena-client): the target verbena::client. Paths are relative to this file, so that an installed tree
# can be moved.
get_filename_component(_verbena_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET verbena::client)
  add_library(verbena::client SHARED IMPORTED)
  set_target_properties(verbena::client PROPERTIES
    IMPORTED_LOCATION "${_verbena_prefix}/lib/libverbena-client.so.1"
    IMPORTED_SONAME libverbena-client.so.1
    INTERFACE_INCLUDE_DIRECTORIES "${_verbena_prefix}/include")
endif()
unset(_verbena_prefix)
