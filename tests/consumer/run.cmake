# Builds and runs the programs in project/ as MODE says:
#   install       installs BUILD_DIR to PREFIX, for the next two
#   package       finds it there with find_package
#   pkgconfig     finds it there with pkg-config, no CMake involved
#   subdirectory  builds SOURCE_DIR inside the project, as the other kind of library (SHARED), installs that and finds it with pkg-config
#   debian        packs BUILD_DIR with cpack, unpacks the package and finds it there both ways
# Needs WORK_DIR, GENERATOR, BUILD_TYPE, LIBRARY_TYPE, C_COMPILER, COMPILER, LAUNCHER, PKG_CONFIG, GLSLANG.
set(PROJECT_DIR ${CMAKE_CURRENT_LIST_DIR}/project)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message(FATAL_ERROR "failed (${status}): ${command}")
    endif()
endfunction()

function(run_programs folder)
    foreach(name consumer_c consumer_cpp)
        file(GLOB_RECURSE program ${folder}/${name} ${folder}/${name}.exe)
        run(${program})
    endforeach()
endfunction()

# Configures, builds and runs the project in a folder; further arguments are for cmake.
function(build_with_cmake folder)
    run(${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${COMPILER}
        -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${ARGN} -S ${PROJECT_DIR} -B ${folder})
    run(${CMAKE_COMMAND} --build ${folder} --config ${BUILD_TYPE} --target consumer_c consumer_cpp)
    run_programs(${folder})
endfunction()

# Builds and runs the programs with what pkg-config says of the tree that was installed to prefix.
function(build_with_pkg_config folder prefix library_type)
    file(GLOB_RECURSE pc_file ${prefix}/vkformer.pc)
    cmake_path(GET pc_file PARENT_PATH pc_dir)
    cmake_path(GET pc_dir PARENT_PATH library_dir)
    set(kind)
    if(library_type STREQUAL "STATIC_LIBRARY")
        set(kind --static)
    endif()
    set(ENV{PKG_CONFIG_PATH} ${pc_dir})
    execute_process(COMMAND ${PKG_CONFIG} ${kind} --cflags --libs vkformer
        OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    if(flags MATCHES "-lvulkan")
        message(FATAL_ERROR "vkformer.pc links the Vulkan loader: ${flags}")
    endif()
    separate_arguments(flags UNIX_COMMAND "${flags}")
    file(MAKE_DIRECTORY ${folder})
    run(${C_COMPILER} -std=c99 -Wall -Wextra -Wpedantic -Werror ${PROJECT_DIR}/main.c -o ${folder}/consumer_c
        -Wl,-rpath,${library_dir} ${flags})
    run(${COMPILER} -std=c++20 ${PROJECT_DIR}/main.cpp -o ${folder}/consumer_cpp -Wl,-rpath,${library_dir} ${flags})
    run_programs(${folder})
endfunction()

# Packs BUILD_DIR (nothing is built for it) and unpacks the package to root.
function(unpack_debian_package root)
    run(${CMAKE_CPACK_COMMAND} -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${WORK_DIR}
        -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip)   # seconds instead of a minute
    file(GLOB package ${WORK_DIR}/*.deb)
    execute_process(COMMAND dpkg-deb --field ${package} Package Version Section Maintainer Depends
        OUTPUT_VARIABLE fields COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS "${package}\n${fields}")
    foreach(expected "Package: vkformer\n" "Version: [0-9]+[.][0-9]+[.][0-9]+" "Section: libdevel\n" "Maintainer: [^\n]+@"
            "Depends: [^\n]*libc6 [(]>=" "libsentencepiece" "libvulkan-dev")
        if(NOT fields MATCHES "${expected}")
            message(FATAL_ERROR "the package's fields lack \"${expected}\"")
        endif()
    endforeach()
    run(dpkg-deb --extract ${package} ${root})
    foreach(file usr/bin/vkformer usr/include/vkformer/vkformer.h usr/share/doc/vkformer/copyright
            usr/share/doc/vkformer/vkformer.default usr/lib/systemd/system/vkformer.service)
        if(NOT EXISTS ${root}/${file})
            message(FATAL_ERROR "the package lacks ${file}")
        endif()
    endforeach()
    file(READ ${root}/usr/lib/systemd/system/vkformer.service unit)
    if(NOT unit MATCHES "ExecStart=/usr/bin/vkformer serve" OR unit MATCHES "@CMAKE")
        message(FATAL_ERROR "the unit starts another program than the package has:\n${unit}")
    endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
if(MODE STREQUAL "install")
    file(REMOVE_RECURSE ${PREFIX})
    run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${BUILD_TYPE} --prefix ${PREFIX})
elseif(MODE STREQUAL "package")
    build_with_cmake(${WORK_DIR} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${PREFIX})
elseif(MODE STREQUAL "pkgconfig")
    build_with_pkg_config(${WORK_DIR} ${PREFIX} ${LIBRARY_TYPE})
elseif(MODE STREQUAL "subdirectory")
    # In one piece: a fraction of the time, and what two files of one directory both name is found, whichever of them a build would
    # put together. That every file compiles on its own is seen otherwise.
    set(unity ON)
    if(DEFINED ENV{VKFORMER_TEST_THOROUGH})
        set(unity OFF)
    endif()
    build_with_cmake(${WORK_DIR}/build -DCMAKE_BUILD_TYPE=Debug -DVKFORMER_SOURCE=${SOURCE_DIR} -DVKFORMER_GLSLANG=${GLSLANG}
        -DBUILD_SHARED_LIBS=${SHARED} -DVKFORMER_INSTALL=ON -DCMAKE_UNITY_BUILD=${unity} -DCMAKE_UNITY_BUILD_BATCH_SIZE=0
        -DCMAKE_CXX_FLAGS_DEBUG=-O0)
    run(${CMAKE_COMMAND} --install ${WORK_DIR}/build/vkformer --prefix ${WORK_DIR}/prefix)
    set(other_type STATIC_LIBRARY)
    if(SHARED)
        set(other_type SHARED_LIBRARY)
    endif()
    build_with_pkg_config(${WORK_DIR}/pkgconfig ${WORK_DIR}/prefix ${other_type})
elseif(MODE STREQUAL "debian")
    unpack_debian_package(${WORK_DIR}/root)
    build_with_cmake(${WORK_DIR}/build -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${WORK_DIR}/root/usr)
    build_with_pkg_config(${WORK_DIR}/pkgconfig ${WORK_DIR}/root/usr ${LIBRARY_TYPE})
else()
    message(FATAL_ERROR "MODE is \"${MODE}\"")
endif()
