# The inner loops of our own kernels, compiled once for each instruction set; own/loops.cpp chooses at run time. own_loops
# becomes the objects of all of them.
file(GLOB loop_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/loops/*.cpp)
set(loop_sets baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND loop_sets avx2 avx512)
  set(loop_options_avx2 -march=x86-64-v3)
  set(loop_options_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
endif()
set(own_loops "")
foreach(set IN LISTS loop_sets)
  add_library(d5_onednn_loops_${set} OBJECT ${loop_sources})
  target_compile_definitions(d5_onednn_loops_${set} PRIVATE D5_ISA=${set})
  target_include_directories(d5_onednn_loops_${set} PRIVATE ${PROJECT_SOURCE_DIR})
  # Speed is what these files are for, whatever the build type; under sanitizers, whose checks stand between the elements, it
  # cannot be had. errno and floating-point traps are nobody's business here; everything else is IEEE arithmetic, on which
  # the elementary functions rely.
  target_compile_options(d5_onednn_loops_${set} PRIVATE -fno-math-errno -fno-trapping-math -fopenmp-simd ${loop_options_${set}})
  if(NOT D5_SANITIZE)
    target_compile_options(d5_onednn_loops_${set} PRIVATE -O3)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Threading a bound (x < low ? low : x) computes what follows twice, once for the constant. Before registers are given
    # out, instructions of independent vectors take turns. GCC 12 takes operands of its own intrinsics that do not count
    # for uninitialised ones.
    target_compile_options(d5_onednn_loops_${set} PRIVATE -fno-thread-jumps -fschedule-insns -fsched-pressure
                           -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  list(APPEND own_loops $<TARGET_OBJECTS:d5_onednn_loops_${set}>)
endforeach()
set_property(GLOBAL PROPERTY D5_ONEDNN_LOOPS ${own_loops})
