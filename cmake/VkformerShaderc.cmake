# VKFORMER_SHADERC_LIBRARIES and VKFORMER_SHADERC_INCLUDE_DIR: what `vkformer bench shader` compiles GLSL with, where it is
# installed (Debian: libshaderc-dev, spirv-tools). Empty without it: the command then takes SPIR-V only.
option(VKFORMER_WITH_SHADERC "Compile GLSL given to `vkformer bench shader`, where shaderc is found" ON)
set(VKFORMER_SHADERC_LIBRARIES)
if(NOT VKFORMER_WITH_SHADERC)
    return()
endif()

include(CheckCXXSourceCompiles)
include(CMakePushCheckState)
find_path(VKFORMER_SHADERC_INCLUDE_DIR shaderc/shaderc.h)
mark_as_advanced(VKFORMER_SHADERC_INCLUDE_DIR)

# Whether a program links with these libraries, all of which must be there.
function(vkformer_try_shaderc result)
    set(libraries)
    foreach(name IN LISTS ARGN)
        find_library(found ${name} NO_CACHE)
        if(NOT found)
            return()
        endif()
        list(APPEND libraries ${found})
        unset(found)
    endforeach()
    cmake_push_check_state(RESET)
    set(CMAKE_REQUIRED_INCLUDES ${VKFORMER_SHADERC_INCLUDE_DIR})
    set(CMAKE_REQUIRED_LIBRARIES ${libraries} Threads::Threads)
    check_cxx_source_compiles("#include <shaderc/shaderc.h>
        int main() { return shaderc_compiler_initialize() == nullptr; }" ${result})
    cmake_pop_check_state()
    if(${result})
        set(VKFORMER_SHADERC_LIBRARIES ${libraries} Threads::Threads PARENT_SCOPE)
    endif()
endfunction()

if(VKFORMER_SHADERC_INCLUDE_DIR)
    find_package(Threads REQUIRED)
    vkformer_try_shaderc(VKFORMER_SHADERC_SHARED shaderc_shared)
    if(NOT VKFORMER_SHADERC_LIBRARIES)
        # Debian's libshaderc.so lacks the glslang that it calls: the archives, in the order of who calls whom.
        vkformer_try_shaderc(VKFORMER_SHADERC_STATIC libshaderc_combined.a libglslang.a libMachineIndependent.a
            libGenericCodeGen.a libOSDependent.a libOGLCompiler.a libHLSL.a libSPIRV.a libSPIRV-Tools-opt.a libSPIRV-Tools.a)
    endif()
endif()
if(VKFORMER_SHADERC_LIBRARIES)
    message(STATUS "vkformer: bench shader compiles GLSL with shaderc")
else()
    message(STATUS "vkformer: no shaderc (Debian: libshaderc-dev, spirv-tools): bench shader takes SPIR-V only")
endif()
