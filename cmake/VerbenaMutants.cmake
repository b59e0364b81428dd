# SPDX-License-Identifier: Apache-2.0
# Planted bugs, for tests of the checkers of simulators: a copy of a source with one exact piece of text
# replaced. Nothing of this is in the sources themselves.

# verbena_mutate(<name> FILE <path in src> FIND <text> REPLACE <text>): sets mutant_file.
function(verbena_mutate name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILE;FIND;REPLACE" "")
  set(original ${PROJECT_SOURCE_DIR}/src/${arg_FILE})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
  file(READ ${original} text)
  string(FIND "${text}" "${arg_FIND}" first)
  string(FIND "${text}" "${arg_FIND}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR
      "Mutant ${name}: its text must be exactly once in src/${arg_FILE}:\n${arg_FIND}")
  endif()
  string(REPLACE "${arg_FIND}" "${arg_REPLACE}" text "${text}")
  set(mutated ${CMAKE_CURRENT_BINARY_DIR}/${name}/${arg_FILE})
  file(CONFIGURE OUTPUT ${mutated} CONTENT "${text}" @ONLY)
  set(mutant_file ${mutated} PARENT_SCOPE)
endfunction()
