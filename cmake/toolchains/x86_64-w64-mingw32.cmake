# Builds for Windows on x86-64 with Debian's MinGW-w64 and what scripts/windows_dependencies.sh has built. The programs
# and the shared library need nothing but Windows' own DLLs.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

# The threads of C++20's library are those of winpthreads: the compiler for "posix" threads.
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)

# scripts/windows_dependencies.sh has the same name for what it builds.
set(vkformer_windows_stamp debian12-3)
include(${CMAKE_CURRENT_LIST_DIR}/cache_folder.cmake)
set(VKFORMER_WINDOWS_PREFIX ${vkformer_cache_dir}/windows-${vkformer_windows_stamp} CACHE PATH
    "What scripts/windows_dependencies.sh has built")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES VKFORMER_WINDOWS_PREFIX)
if(NOT IS_DIRECTORY ${VKFORMER_WINDOWS_PREFIX}/lib)
    message(FATAL_ERROR "vkformer: there is no ${VKFORMER_WINDOWS_PREFIX}. Run scripts/windows_dependencies.sh")
endif()

# mbig-obj: a unity build has more sections than an object file holds otherwise. muse-unaligned-vector-move: Windows
# aligns the stack to 16 bytes, and g++ stores vectors of 32 and 64 bytes there as if it were aligned to their size
# (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=54412). fno-ipa-ra: g++ looks which registers an inline function leaves
# alone and keeps values in them while it is called, though the linker may take another object's code for it.
foreach(language C CXX)
    set(CMAKE_${language}_FLAGS_INIT "-fno-ipa-ra -Wa,-mbig-obj,-muse-unaligned-vector-move")
endforeach()
foreach(kind EXE SHARED MODULE)
    set(CMAKE_${kind}_LINKER_FLAGS_INIT -static)   # libgcc, libstdc++ and winpthreads, too
endforeach()

# Libraries, headers and packages of that folder alone, programs of this machine.
set(CMAKE_FIND_ROOT_PATH ${VKFORMER_WINDOWS_PREFIX})
set(CMAKE_PREFIX_PATH ${VKFORMER_WINDOWS_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${VKFORMER_WINDOWS_PREFIX}/lib/pkgconfig)
unset(ENV{PKG_CONFIG_PATH})
unset(ENV{PKG_CONFIG_SYSROOT_DIR})
