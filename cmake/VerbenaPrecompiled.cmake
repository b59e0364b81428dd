# SPDX-License-Identifier: Apache-2.0
# Precompiled headers, two for a whole build: the standard library's, for everything; and with
# GoogleTest's, for the tests. Reading those headers is half the time of a compile. They hide a
# forgotten #include: `./dev lint FILE` goes without them and sees it, and `./dev cross` in all files.

# Code of libraries and programs is compiled alike, for they could not share a header otherwise.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})

set(precompiled_standard
  <algorithm> <array> <atomic> <bit> <cerrno> <chrono> <cstdint> <cstdio> <cstdlib> <cstring> <deque>
  <expected> <functional> <map> <memory> <optional> <set> <span> <string> <string_view>
  <unordered_map> <utility> <vector>)

# A unit test's own code is compiled to be compiled fast: it is not what is measured or optimised, and
# AddressSanitizer sees more in code that is not optimised. -O1 would take twice as long.
add_library(verbena_test_compiler INTERFACE)
target_link_libraries(verbena_test_compiler INTERFACE verbena_compiler)
# Where a crash is to be looked into there are the sanitizers, which name lines.
if(VERBENA_SANITIZE)
  target_compile_options(verbena_test_compiler INTERFACE -g1 -O0)
else()
  target_compile_options(verbena_test_compiler INTERFACE -g0 -O0)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees uninitialised values in comparisons of std::optional inside GoogleTest's macros.
  target_compile_options(verbena_test_compiler INTERFACE -Wno-maybe-uninitialized)
endif()

# A precompiled header belongs to a library, which must have a source.
function(_verbena_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK")
  set(source ${PROJECT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

_verbena_precompiled(verbena_precompiled HEADERS ${precompiled_standard} LINK verbena_compiler)
if(VERBENA_TESTS)
  _verbena_precompiled(verbena_test_precompiled
    HEADERS <gmock/gmock.h> <gtest/gtest.h> ${precompiled_standard}
    LINK verbena_test_compiler GTest::gtest GTest::gmock)
endif()

# verbena_compile(<target>): how code that is not a unit test's is compiled.
function(verbena_compile target)
  target_link_libraries(${target} PRIVATE verbena_compiler)
  target_precompile_headers(${target} REUSE_FROM verbena_precompiled)
endfunction()

# verbena_compile_test(<target>): how code that uses GoogleTest is compiled.
function(verbena_compile_test target)
  target_link_libraries(${target} PRIVATE verbena_test_compiler GTest::gtest GTest::gmock)
  target_precompile_headers(${target} REUSE_FROM verbena_test_precompiled)
endfunction()
