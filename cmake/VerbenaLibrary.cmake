# SPDX-License-Identifier: Apache-2.0
# One folder under src/ is one library. The names of its files say what they are:
#
#   x.cc         part of the library verbena_<name>
#   x_test.cc    part of the test program <name>_test, one ctest entry
#   x_fuzz.cc    fuzzer x_fuzz: libFuzzer in the fuzz preset, a replay of tests/corpus/x elsewhere
#   x_bench.cc   Google Benchmark program x_bench
#   x_main.cc    a program; the folder's CMakeLists.txt names it with verbena_program()

# verbena_library(<name> [DEPS folder...] [LINK target...] [TEST_DEPS folder...] [THREADS [THREADS_IN file...]]
#                 [WAITS] [SECONDS n])
#
#   DEPS       the folders this one may include; scripts/check-layers holds the sources to it
#   LINK       libraries that are not ours
#   TEST_DEPS  further folders for the tests, fuzzers and benchmarks alone
#   THREADS    the tests start threads: `./dev test --sanitizers` runs them under ThreadSanitizer too
#   THREADS_IN only these do, and the others have one thread each: nothing to be seen there
#   WAITS, SECONDS  of the tests, as in verbena_add_test()
function(verbena_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADS;WAITS" "SECONDS" "DEPS;LINK;TEST_DEPS;THREADS_IN")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbena_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()

  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cc)
  file(GLOB fuzzers CONFIGURE_DEPENDS *_fuzz.cc)
  file(GLOB benches CONFIGURE_DEPENDS *_bench.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench|main)\\.cc$")
  if(arg_THREADS_IN AND VERBENA_SANITIZE STREQUAL "thread")
    set(tests ${arg_THREADS_IN})
  endif()

  set(library verbena_${name})
  if(VERBENA_LINT_ALL)
    # First: what a library's source does to the macros of a header is not for them.
    list(PREPEND sources ${fuzzers} ${benches})
  endif()
  if(sources)
    set(scope PUBLIC)
    add_library(${library} STATIC ${sources})
    verbena_compile(${library})
    if(VERBENA_LINT_ALL)
      target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
      set_target_properties(${library} PROPERTIES UNITY_BUILD_UNIQUE_ID LLVMFuzzerTestOneInput)
    endif()
  else()
    set(scope INTERFACE)
    add_library(${library} INTERFACE)
  endif()
  target_include_directories(${library} ${scope}
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM arg_DEPS PREPEND verbena_)
  list(TRANSFORM arg_TEST_DEPS PREPEND verbena_)
  foreach(dep IN LISTS arg_DEPS)
    if(NOT TARGET ${dep})
      message(FATAL_ERROR "src/${name} depends on ${dep}, which is not a layer below it")
    endif()
  endforeach()
  target_link_libraries(${library} ${scope} ${arg_DEPS} ${arg_LINK})

  set(link ${library} ${arg_TEST_DEPS})
  if(tests AND VERBENA_TESTS)
    _verbena_test_options(options)
    verbena_test(${name}_test SOURCES ${tests} LINK ${link} LEAKS ${options})
  endif()
  foreach(source IN LISTS fuzzers)
    _verbena_fuzzer(${source} "${link}")
  endforeach()
  if(VERBENA_BENCH)
    foreach(source IN LISTS benches)
      get_filename_component(target ${source} NAME_WE)
      verbena_bench_program(${target} SOURCES ${source} LINK ${link} benchmark::benchmark_main)
    endforeach()
  endif()
endfunction()

# verbena_program(<name> SOURCES file... [LINK target...]): a program for users, in bin/, installed.
function(verbena_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  verbena_compile(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# verbena_shared_library(<name> [VERSION version] [FOLDERS folder...] [DEPS folder...] [LINK target...]
#                        [SYSTEM_CXX] [DESTINATION dir]):
# lib<name>.so.1, which stands in for the distribution's of that version, or without one lib<name>.so, which
# is preloaded; in lib/verbena/, installed. It is made of the folder's own sources, or of what
# verbena_library(<folder>) has compiled.
#
# It lives in other people's processes: nothing of ours is visible but what lib<name>.map names, the C++
# library comes along inside, and it is never unloaded. Not for builds with sanitizers, which do not
# go with programs that were built without.
#
#   SYSTEM_CXX   the C++ library is the system's: for one that needs other C++ libraries, which have that one
#   DESTINATION  where it is installed, if not in lib/verbena/
function(verbena_shared_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SYSTEM_CXX" "VERSION;DESTINATION" "FOLDERS;DEPS;LINK")
  if(NOT arg_DESTINATION)
    set(arg_DESTINATION ${VERBENA_INSTALL_LIBDIR})
  endif()
  list(TRANSFORM arg_DEPS PREPEND verbena_)
  if(arg_FOLDERS)
    list(GET arg_FOLDERS 0 lowest)
    list(TRANSFORM arg_FOLDERS REPLACE "(.+)" "$<TARGET_OBJECTS:verbena_\\1>" OUTPUT_VARIABLE sources)
    get_target_property(folder_link verbena_${lowest} LINK_LIBRARIES)
    list(APPEND arg_LINK ${folder_link})
  else()
    file(GLOB sources CONFIGURE_DEPENDS *.cc)
  endif()
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/lib${name}.map)
  add_library(${name} SHARED ${sources})
  verbena_compile(${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LINK})
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${map} -Wl,-z,nodelete -Wl,-z,defs -Wl,-z,now -Wl,--exclude-libs,ALL)
  if(arg_SYSTEM_CXX)
    target_link_options(${name} PRIVATE -Wl,--as-needed)
  else()
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  set_target_properties(${name} PROPERTIES
    LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${arg_DESTINATION})
  if(arg_VERSION)
    set_target_properties(${name} PROPERTIES VERSION ${arg_VERSION} SOVERSION 1)
  else()
    set_target_properties(${name} PROPERTIES NO_SONAME ON)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ${arg_DESTINATION})
endfunction()

# verbena_test_program(<name> SOURCES file... [LINK target...]): a program for developers, in
# <build>/tests. It may include headers from tests/ as "support/x.h".
function(verbena_test_program name)
  _verbena_test_executable(${name} ${ARGN})
  verbena_compile(${name})
endfunction()

# verbena_bench_program(<name> SOURCES file... [LINK target...]): the same for a benchmark. `./dev bench`
# builds it when it is wanted; all of them are verbena_benches.
add_custom_target(verbena_benches)
function(verbena_bench_program name)
  verbena_test_program(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(verbena_benches ${name})
endfunction()

function(_verbena_test_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LINK} Threads::Threads)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${VERBENA_TEST_OUTPUT_DIRECTORY})
endfunction()

# verbena_add_test(<name> [THREADS] [LEAKS] [WAITS] [BOTH_LINKS] [EACH_FABRIC] [SECONDS n] [LINK_KIND kind]
# [FABRIC fabric] COMMAND ...): a ctest entry run from the repository's root.
#
#   LEAKS    AddressSanitizer looks for them. On arm64 that takes GCC's four seconds for each process, whatever
#            it did: all unit tests have it, and of the programs that run whole pieces one of each kind
#   WAITS    it uses about half of the time of one core or less: it waits for disks, time-outs or other processes.
#            Such a test counts as half a core, so that others run meanwhile: `./dev test` gives ctest two
#            units for each core, and other tests take two. With sanitizers all are busy
#   SECONDS  about how long it takes, of a long one; the longest start first, so that no core is idle at
#            the end
#   LINK_KIND   the link that devices of the test use, if it asks tests/support/test_link.h
#   FABRIC      the fabric of the store's tests (tests/serve/settings.h)
#   EACH_FABRIC such a test runs once more over libfabric, as <name>_tcp
#   BOTH_LINKS  such a test runs once more, as <name>_udp, through sockets alone; else processes of a host
#               use rings in shared memory
function(verbena_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADS;LEAKS;WAITS;BOTH_LINKS;EACH_FABRIC" "SECONDS;LINK_KIND;FABRIC" "COMMAND")
  if(arg_BOTH_LINKS)
    _verbena_test_options(options)
    list(REMOVE_ITEM options BOTH_LINKS LEAKS)  # over the other link they were looked for
    verbena_add_test(${name}_udp ${options} LINK_KIND udp COMMAND ${arg_COMMAND})
  endif()
  # libfabric cannot be used with the device's libraries inside the program, as sanitizers have them.
  if(arg_EACH_FABRIC AND NOT VERBENA_SANITIZE)
    verbena_add_test(${name}_tcp FABRIC ofi:tcp WAITS SECONDS ${arg_SECONDS} COMMAND ${arg_COMMAND})
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(environment "UBSAN_OPTIONS=print_stacktrace=1" "TSAN_OPTIONS=halt_on_error=1")
  if(arg_LINK_KIND)
    list(APPEND environment "VERBENA_TEST_LINK=${arg_LINK_KIND}")
  endif()
  if(arg_FABRIC)
    list(APPEND environment "VERBENA_TEST_FABRIC=${arg_FABRIC}" "VERBENA_SERVE_FABRIC=${arg_FABRIC}")
  endif()
  if(NOT arg_LEAKS)
    list(APPEND environment "ASAN_OPTIONS=detect_leaks=0")
  endif()
  set(processors 2)
  if(arg_WAITS AND NOT VERBENA_SANITIZE)
    set(processors 1)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 600 ENVIRONMENT "${environment}" PROCESSORS ${processors})
  if(arg_SECONDS)
    set_tests_properties(${name} PROPERTIES COST ${arg_SECONDS})
  endif()
  if(arg_THREADS)
    set_tests_properties(${name} PROPERTIES LABELS threads)
    list(GET arg_COMMAND 0 program)
    if(TARGET ${program})
      add_dependencies(verbena_threads_tests ${program})
    endif()
  endif()
endfunction()

# What the ThreadSanitizer step of `./dev test --sanitizers` builds.
add_custom_target(verbena_threads_tests)

# verbena_test(<name> SOURCES file... [LINK target...] [THREADS] [LEAKS] [WAITS] [SECONDS n]): a GoogleTest program
# and its ctest entry; one entry per program keeps start-up cost away from the sum of many small tests.
function(verbena_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADS;LEAKS;WAITS" "SECONDS" "SOURCES;LINK")
  verbena_gtest_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  _verbena_test_options(options)
  _verbena_gtest_filter(filter "")
  verbena_add_test(${name} ${options} COMMAND ${name} ${filter})
endfunction()

# verbena_gtest_program(<name> SOURCES file... [LINK target...]): the program alone.
function(verbena_gtest_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  _verbena_test_executable(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gtest_main)
  verbena_compile_test(${name})
endfunction()

# verbena_test_file(<name> PROGRAM program SOURCE file [THREADS] [LEAKS] [WAITS] [BOTH_LINKS] [EACH_FABRIC]
# [SECONDS n]): a ctest
# entry for the tests of one file of a GoogleTest program. Files that include the same are compiled as one program,
# in half the time, and still run in a process each.
function(verbena_test_file name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADS;LEAKS;WAITS;BOTH_LINKS;EACH_FABRIC" "PROGRAM;SOURCE;SECONDS" "")
  _verbena_test_options(options)
  _verbena_suites(suites ${arg_PROGRAM} ${arg_SOURCE})
  _verbena_gtest_filter(filter "${suites}")
  verbena_add_test(${name} ${options} COMMAND ${arg_PROGRAM} ${filter})
endfunction()

# Patterns for the test suites of a file. No other file of the program may have a suite of the same name:
# its tests would run twice.
function(_verbena_suites result program source)
  cmake_path(ABSOLUTE_PATH source)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} lines REGEX "^[A-Z_]*TEST(_F|_P)?\\(")
  set(suites)
  set(patterns)
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^TEST(_F|_P)?\\(([A-Za-z0-9_]+),")
      message(FATAL_ERROR "${source}: no name of a test suite in: ${line}")
    endif()
    list(APPEND suites ${CMAKE_MATCH_2})
    if(CMAKE_MATCH_1 STREQUAL "_P")
      list(APPEND patterns "*/${CMAKE_MATCH_2}.*")
    else()
      list(APPEND patterns "${CMAKE_MATCH_2}.*")
    endif()
  endforeach()
  if(NOT suites)
    message(FATAL_ERROR "${source} has no tests")
  endif()
  list(REMOVE_DUPLICATES suites)
  list(REMOVE_DUPLICATES patterns)
  get_target_property(taken ${program} VERBENA_SUITES)
  foreach(suite IN LISTS suites)
    if(suite IN_LIST taken)
      message(FATAL_ERROR "${source}: another file of ${program} has a test suite ${suite}")
    endif()
  endforeach()
  set_property(TARGET ${program} APPEND PROPERTY VERBENA_SUITES ${suites})
  set(${result} ${patterns} PARENT_SCOPE)
endfunction()

# The argument of a GoogleTest program that runs the suites of these patterns, or without any, all.
function(_verbena_gtest_filter result patterns)
  list(JOIN patterns ":" filter)
  if(VERBENA_SANITIZE STREQUAL "thread")
    string(APPEND filter "-*Property*")  # long, and of one thread
  endif()
  if(filter)
    string(PREPEND filter "--gtest_filter=")
  endif()
  set(${result} ${filter} PARENT_SCOPE)
endfunction()

# What the caller was given of verbena_add_test()'s options, to be passed on.
macro(_verbena_test_options result)
  set(${result})
  foreach(option IN ITEMS THREADS LEAKS WAITS BOTH_LINKS EACH_FABRIC)
    if(arg_${option})
      list(APPEND ${result} ${option})
    endif()
  endforeach()
  if(arg_SECONDS)
    list(APPEND ${result} SECONDS ${arg_SECONDS})
  endif()
endmacro()

function(_verbena_fuzzer source link)
  get_filename_component(target ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" short ${target})
  if(VERBENA_FUZZ)
    verbena_test_program(${target} SOURCES ${source} LINK ${link})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  elseif(VERBENA_TESTS)
    if(NOT TARGET verbena_fuzz_replay)
      add_library(verbena_fuzz_replay STATIC
        ${PROJECT_SOURCE_DIR}/tests/support/fuzz_replay_main.cc)
      verbena_compile(verbena_fuzz_replay)
    endif()
    verbena_test_program(${target} SOURCES ${source} LINK ${link} verbena_fuzz_replay)
    verbena_add_test(${target}_corpus
      COMMAND ${target} ${PROJECT_SOURCE_DIR}/tests/corpus/${short})
  endif()
endfunction()
