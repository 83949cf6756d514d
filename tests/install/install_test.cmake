# cmake -DBUILD= -DOUTSIDE= -DWORK= -DCOMPILER= -DGENERATOR= -DCONFIG= -P install_test.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${status}): ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --config ${CONFIG})
# Nothing may lead back into the source tree: the outside project is copied and sees the prefix alone.
file(COPY ${OUTSIDE}/ DESTINATION ${WORK}/outside)
run(${CMAKE_COMMAND} -S ${WORK}/outside -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside ${WORK}/build/double.so ${WORK}/build/stale.so)
run(${WORK}/prefix/bin/d5 --version)

file(GLOB installed ${WORK}/prefix/lib*/d5/*.so ${WORK}/prefix/lib*/*/d5/*.so)
foreach(module IN LISTS installed)
  execute_process(COMMAND ldd ${module} OUTPUT_VARIABLE libraries)
  string(REPLACE "${WORK}/prefix" "PREFIX" libraries "${libraries}")  # the prefix lies in the build folder here
  # LibTorch is too large to be copied: the module finds it where it was fetched to.
  string(REPLACE "${BUILD}/dependencies/lib/python" "FETCHED" libraries "${libraries}")
  if(libraries MATCHES "[^\n]*not found|[^\n]*=> ${BUILD}[^\n]*")
    message(FATAL_ERROR "${module} is not whole without the build folder: ${CMAKE_MATCH_0}")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
