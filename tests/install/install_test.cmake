# cmake -DBUILD= -DEXAMPLES= -DWORK= -DCOMPILER= -DGENERATOR= -DCONFIG= -P install_test.cmake
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
file(COPY ${EXAMPLES}/ DESTINATION ${WORK}/examples)
run(${CMAKE_COMMAND} -S ${WORK}/examples/plugin -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside ${WORK}/build/double.so ${WORK}/build/stale.so ${WORK}/build/signum.so ${WORK}/build/gossip.so)
run(${WORK}/prefix/bin/d5 list optimizers --plugin ${WORK}/build/signum.so)

# The installed program: the plugin by its option and by its variable, and files compiled against the installed headers.
set(ENV{XDG_CACHE_HOME} ${WORK}/cache)
set(d5 ${WORK}/prefix/bin/d5)
run(${d5} --version)
run(${d5} op Double --plugin ${WORK}/build/double.so --pass forward,backward --mode check --quiet -o ${WORK}/results/1)
run(${CMAKE_COMMAND} -E env D5_PLUGINS=${WORK}/build/double.so ${d5} op Double --mode check --quiet -o ${WORK}/results/2)
run(${d5} op SquaredRelu --source ${WORK}/examples/operator/squared_relu.cpp --source ${WORK}/examples/kernel/squared_relu_kernel.cpp
    --kernel builtin,mine --mode check --quiet -o ${WORK}/results/3)
file(GLOB onednn ${WORK}/prefix/lib*/d5/libd5_onednn.so ${WORK}/prefix/lib*/*/d5/libd5_onednn.so)
if(onednn)
  run(${d5} op Conv --c 16 --source ${WORK}/examples/kernel/onednn_conv.cpp --backend onednn --kernel builtin,chosen
      --mode check --quiet -o ${WORK}/results/4)
endif()
execute_process(COMMAND ${d5} list operators --plugin ${WORK}/build/stale.so RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 1 OR NOT said MATCHES "built for another version of libd5")
  message(FATAL_ERROR "a stale plugin: status ${status}, ${said}")
endif()

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
