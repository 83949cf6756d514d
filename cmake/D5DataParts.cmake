# Parts of d5/datasets that need a library. A file of libd5 is left out where its library is not there; what is heavy is a
# module (lib/d5/libd5_<name>.so), opened when first asked for. parts.txt beside the modules tells the program:
# kind|name|on, module or off|library or reason.
set_property(GLOBAL PROPERTY D5_DATA_PART_ROWS "")

function(d5_data_part_row row)
  string(REPLACE ";" "<semicolon>" row "${row}")
  set_property(GLOBAL APPEND PROPERTY D5_DATA_PART_ROWS "${row}")
endfunction()

# d5_data_module(<container> ABOUT ... SOURCES ... LIBRARIES ... INCLUDES ...)
function(d5_data_module name)
  cmake_parse_arguments(PARSE_ARGV 1 A "" "ABOUT" "SOURCES;LIBRARIES;INCLUDES")
  add_library(d5_${name} MODULE ${A_SOURCES})
  target_link_libraries(d5_${name} PRIVATE d5 ${A_LIBRARIES})
  target_include_directories(d5_${name} SYSTEM PRIVATE ${A_INCLUDES})
  target_compile_options(d5_${name} PRIVATE ${D5_FUZZ_OPTIONS})
  set_target_properties(d5_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/d5" INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS d5_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/d5)
  set_property(GLOBAL APPEND PROPERTY D5_BACKEND_TARGETS d5_${name})
  d5_data_part_row("container|${name}|module|${A_ABOUT}")
endfunction()

function(d5_data_module_off name reason)
  d5_data_part_row("container|${name}|off|${reason}")
endfunction()

find_package(ZLIB REQUIRED)
find_package(JPEG QUIET)
find_package(PNG QUIET)
find_package(LibLZMA QUIET)
set(d5_data_libraries ZLIB::ZLIB)

# jpeg_crop_scanline and jpeg_skip_scanlines are libjpeg-turbo's own.
set(turbo FALSE)
if(JPEG_FOUND)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
  check_cxx_source_compiles("#include <cstdio>\n#include <jpeglib.h>\nint main() { jpeg_skip_scanlines(nullptr, LIBJPEG_TURBO_VERSION_NUMBER); }" D5_JPEG_IS_TURBO)
  unset(CMAKE_REQUIRED_LIBRARIES)
  set(turbo ${D5_JPEG_IS_TURBO})
endif()

# d5_data_file(<kind> <name> <found> <target> <library> <version> <package>): datasets/<name>.cpp is built where its library
# is there.
macro(d5_data_file kind name found target library version package)
  if("${found}")
    list(APPEND d5_data_libraries ${target})
    string(STRIP "${library} ${version}" d5_data_library)
    d5_data_part_row("${kind}|${name}|on|${d5_data_library}")
  else()
    list(FILTER sources EXCLUDE REGEX "datasets/${name}.cpp")
    d5_data_part_row("${kind}|${name}|off|${library} with its headers is not here (Debian, Ubuntu: ${package})")
  endif()
endmacro()
d5_data_file(decoder jpeg "${turbo}" JPEG::JPEG libjpeg-turbo "" libjpeg-dev)
d5_data_file(decoder png "${PNG_FOUND}" PNG::PNG libpng "${PNG_VERSION_STRING}" libpng-dev)
d5_data_file(compression xz "${LIBLZMA_FOUND}" LibLZMA::LibLZMA liblzma "${LIBLZMA_VERSION_STRING}" liblzma-dev)

function(d5_link_data_parts)
  target_link_libraries(d5 PRIVATE ${d5_data_libraries})
endfunction()

# After all parts have said what they are.
function(d5_data_part_table)
  get_property(rows GLOBAL PROPERTY D5_DATA_PART_ROWS)
  set(file "")
  foreach(row IN LISTS rows)
    string(REPLACE "<semicolon>" ";" row "${row}")
    string(APPEND file "${row}\n")
    string(REPLACE "|" "  " row "${row}")
    message(STATUS "data part: ${row}")
  endforeach()
  file(WRITE "${PROJECT_BINARY_DIR}/lib/d5/parts.txt" "${file}")
  install(FILES "${PROJECT_BINARY_DIR}/lib/d5/parts.txt" DESTINATION ${CMAKE_INSTALL_LIBDIR}/d5)
endfunction()
