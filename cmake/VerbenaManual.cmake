# SPDX-License-Identifier: Apache-2.0
# verbena_manual(<page> <header>): installs man/<page>.3, and a link to it for each call and each structure
# that include/verbena/<header> has: `man verbena_read` shows the page of them all.
function(verbena_manual page header)
  set(source ${PROJECT_SOURCE_DIR}/include/verbena/${header})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  set(names)
  foreach(pattern IN ITEMS "\n[a-z][a-z0-9_ *]*[ *](verbena_[a-z0-9_]+)\\(" "\nstruct (verbena_[a-z0-9_]+) {")
    string(REGEX MATCHALL "${pattern}" found "${text}")
    list(TRANSFORM found REPLACE "${pattern}" "\\1")
    list(APPEND names ${found})
  endforeach()
  # Its argument is a structure, and what it defines a call.
  string(REGEX MATCHALL "\nVERBENA_DEFINE_INIT\\(verbena_[a-z0-9_]+" found "${text}")
  list(TRANSFORM found REPLACE ".*\\((.+)" "\\1_init")
  list(APPEND names ${found})
  install(FILES ${PROJECT_SOURCE_DIR}/man/${page}.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  foreach(name IN LISTS names)
    set(link ${CMAKE_CURRENT_BINARY_DIR}/man/${name}.3)
    file(CONFIGURE OUTPUT ${link} CONTENT ".so man3/${page}.3\n")
    install(FILES ${link} DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  endforeach()
endfunction()
