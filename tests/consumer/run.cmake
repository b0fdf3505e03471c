# Builds and runs the program in project/ as MODE says: "package" installs BUILD_DIR and finds it there, "subdirectory" builds
# SOURCE_DIR inside the program. Needs WORK_DIR, GENERATOR, BUILD_TYPE, COMPILER, LAUNCHER, GLSLANG, SHARED.
function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "failed (${status}): ${command}")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(options -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
if(MODE STREQUAL "package")
    run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${BUILD_TYPE} --prefix ${WORK_DIR}/prefix)
    list(APPEND options -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
else()
    list(APPEND options -DCMAKE_BUILD_TYPE=Debug -DVKFORMER_SOURCE=${SOURCE_DIR} -DVKFORMER_GLSLANG=${GLSLANG}
        -DBUILD_SHARED_LIBS=${SHARED})
endif()
run(${CMAKE_COMMAND} ${options} -S ${CMAKE_CURRENT_LIST_DIR}/project -B ${WORK_DIR}/build)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --config ${BUILD_TYPE} --target consumer)

file(GLOB_RECURSE program ${WORK_DIR}/build/consumer ${WORK_DIR}/build/consumer.exe)
run(${program})
