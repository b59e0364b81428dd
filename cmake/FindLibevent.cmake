# SPDX-License-Identifier: Apache-2.0
# libevent without its extras: Libevent::core. Debian's package has no CMake files of its own.
find_path(Libevent_INCLUDE_DIR event2/event.h)
find_library(Libevent_LIBRARY event_core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libevent REQUIRED_VARS Libevent_LIBRARY Libevent_INCLUDE_DIR)
if(Libevent_FOUND AND NOT TARGET Libevent::core)
  add_library(Libevent::core UNKNOWN IMPORTED)
  set_target_properties(Libevent::core PROPERTIES
    IMPORTED_LOCATION ${Libevent_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Libevent_INCLUDE_DIR})
endif()
