# SPDX-License-Identifier: Apache-2.0
# Warnings and sanitizers, as one interface target that everything of ours links privately.
add_library(verbena_compiler INTERFACE)
target_compile_options(verbena_compiler INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(verbena_compiler INTERFACE -Wthread-safety)
endif()
if(VERBENA_WERROR)
  target_compile_options(verbena_compiler INTERFACE -Werror)
endif()

# GCC clears structures of a few hundred bytes by "rep stos" on x86-64, which takes as long to begin
# as a small message takes for a tenth of its way. Other compilers do not know the option.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mmemset-strategy=libcall:-1:noalign VERBENA_HAS_MEMSET_STRATEGY)
if(VERBENA_HAS_MEMSET_STRATEGY)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-mmemset-strategy=libcall:-1:noalign>)
endif()

# Sanitizers apply to all code in the build, so that no two translation units disagree.
if(VERBENA_SANITIZE)
  add_compile_options(-fsanitize=${VERBENA_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${VERBENA_SANITIZE})
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The instrumentation hides initialisations from GCC's flow analysis; release builds check this.
    target_compile_options(verbena_compiler INTERFACE -Wno-maybe-uninitialized)
    if(VERBENA_SANITIZE MATCHES "thread")
      # Fences are not modelled by TSan; GCC says so at each of them.
      target_compile_options(verbena_compiler INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

if(VERBENA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "VERBENA_FUZZ needs clang: libFuzzer comes with it.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
