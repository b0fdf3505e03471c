# Debian's cross compiler for aarch64, with the arm64 libraries that `scripts/setup.sh --aarch64` has put into a folder.
# Programs run under qemu-user, by default on "max", which has all that it knows; QEMU_CPU in the environment chooses
# another processor, cortex-a53 for one, which has neither dot products nor int8 matrices.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

include(${CMAKE_CURRENT_LIST_DIR}/cache_folder.cmake)
set(sysroot ${vkformer_cache_dir}/sysroot-aarch64)
if(NOT EXISTS ${sysroot}/made-of)
    message(FATAL_ERROR "vkformer: there are no arm64 libraries in ${sysroot}. Run scripts/setup.sh --aarch64")
endif()

set(CMAKE_SYSROOT ${sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(what LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${what} ONLY)
endforeach()
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${sysroot})
set(ENV{PKG_CONFIG_LIBDIR} ${sysroot}/usr/lib/aarch64-linux-gnu/pkgconfig:${sysroot}/usr/share/pkgconfig)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${sysroot})
