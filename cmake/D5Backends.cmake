# Backends are optional shared modules. Each folder under d5/backends decides whether it can be built:
#   d5_backend(<name> SOURCES ... LIBRARIES ...)   builds lib/d5/libd5_<name>.so
#   d5_backend_off(<name> <reason>)                says why not; an error where D5_BACKEND_<NAME>=ON
# Configuring ends with the table of all of them; `d5 list backends` prints the same reasons.
set_property(GLOBAL PROPERTY D5_BACKEND_ROWS "")

# Rows are a list, whose separator a reason may hold, too.
function(d5_backend_row row)
  string(REPLACE ";" "<semicolon>" row "${row}")
  set_property(GLOBAL APPEND PROPERTY D5_BACKEND_ROWS "${row}")
endfunction()

function(d5_backend name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "ABOUT" "SOURCES;LIBRARIES")
  add_library(d5_${name} MODULE ${A_SOURCES})
  target_link_libraries(d5_${name} PRIVATE d5 ${A_LIBRARIES})
  set_target_properties(d5_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/d5"
                        INSTALL_RPATH "$ORIGIN;$ORIGIN/.." INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS d5_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/d5)
  foreach(library IN LISTS A_LIBRARIES)
    d5_install_fetched(${library})
  endforeach()
  d5_backend_row("${name}|on|${A_ABOUT}")
  set_property(GLOBAL APPEND PROPERTY D5_BACKEND_TARGETS d5_${name})
endfunction()

# A library that was fetched into build/dependencies is installed beside the module under the name the loader asks for;
# an installed program must not need the build folder. Any other library stays where it is.
function(d5_install_fetched library)
  if(NOT TARGET ${library})
    return()
  endif()
  get_target_property(location ${library} LOCATION)
  string(FIND "${location}" "${PROJECT_SOURCE_DIR}/build/dependencies/" at)
  if(at EQUAL 0)
    get_filename_component(folder ${location} DIRECTORY)
    get_target_property(name ${library} IMPORTED_SONAME_RELEASE)
    install(FILES ${folder}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/d5)
  endif()
endfunction()

function(d5_backend_off name reason)
  string(TOUPPER ${name} upper)
  if("${D5_BACKEND_${upper}}" STREQUAL "ON")
    message(FATAL_ERROR "D5_BACKEND_${upper}=ON, but ${reason}")
  endif()
  d5_backend_row("${name}|off|${reason}")
endfunction()

# The table for people, and backends.txt beside the modules for the program ("name|on|about" or "name|off|reason").
function(d5_backend_table)
  get_property(rows GLOBAL PROPERTY D5_BACKEND_ROWS)
  set(file "")
  message(STATUS "")
  message(STATUS "backend      state  note")
  foreach(row IN LISTS rows)
    string(REPLACE "|" ";" cells "${row}")
    list(GET cells 0 name)
    list(GET cells 1 state)
    list(GET cells 2 note)
    string(REPLACE "<semicolon>" ";" note "${note}")
    string(REPLACE "<semicolon>" ";" row "${row}")
    string(SUBSTRING "${name}             " 0 12 name)
    string(SUBSTRING "${state}      " 0 6 state)
    message(STATUS "${name} ${state} ${note}")
    string(APPEND file "${row}\n")
  endforeach()
  message(STATUS "")
  file(WRITE "${PROJECT_BINARY_DIR}/lib/d5/backends.txt" "${file}")
  install(FILES "${PROJECT_BINARY_DIR}/lib/d5/backends.txt" DESTINATION ${CMAKE_INSTALL_LIBDIR}/d5)
endfunction()
