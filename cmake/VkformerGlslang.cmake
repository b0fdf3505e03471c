# Finds the shader compiler: VKFORMER_GLSLANG, then the pinned one that scripts/setup.sh builds into the user's cache, then
# PATH. Sets VKFORMER_GLSLANG_EXECUTABLE, VKFORMER_GLSLANG_VERSION and VKFORMER_GLSLANG_LACKS: the requirements of
# the shaders whose GLSL extension it does not know.
set(VKFORMER_GLSLANG_PINNED 15.1.0)

if(VKFORMER_GLSLANG)
    if(NOT EXISTS "${VKFORMER_GLSLANG}")
        message(FATAL_ERROR "VKFORMER_GLSLANG is ${VKFORMER_GLSLANG}, which does not exist")
    endif()
    set(VKFORMER_GLSLANG_EXECUTABLE ${VKFORMER_GLSLANG})
else()
    if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
        set(cache_dir $ENV{XDG_CACHE_HOME})
    else()
        set(cache_dir $ENV{HOME}/.cache)
    endif()
    unset(found)
    find_program(found NAMES glslang glslangValidator
        PATHS ${cache_dir}/vkformer/glslang-${VKFORMER_GLSLANG_PINNED}/bin NO_DEFAULT_PATH NO_CACHE)
    if(NOT found)
        find_program(found NAMES glslang glslangValidator NO_CACHE)
    endif()
    if(NOT found)
        message(FATAL_ERROR "vkformer: no glslang to compile the shaders with. Run scripts/setup.sh, or on Debian: "
            "apt-get install glslang-tools, or set VKFORMER_GLSLANG")
    endif()
    set(VKFORMER_GLSLANG_EXECUTABLE ${found})
endif()

execute_process(COMMAND ${VKFORMER_GLSLANG_EXECUTABLE} --version
    OUTPUT_VARIABLE version_text ERROR_VARIABLE version_text RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT version_text MATCHES "Glslang Version: [0-9]+:([0-9]+\\.[0-9]+\\.[0-9]+)")
    message(FATAL_ERROR "vkformer: ${VKFORMER_GLSLANG_EXECUTABLE} --version fails: ${version_text}")
endif()
set(VKFORMER_GLSLANG_VERSION ${CMAKE_MATCH_1})

# A version number promises nothing (distributions patch): ask the compiler itself whether it knows the extensions.
set(extension_int_dot GL_EXT_integer_dot_product)
set(extension_coopmat GL_KHR_cooperative_matrix)
set(extension_coopmat2 GL_NV_cooperative_matrix2)
set(VKFORMER_GLSLANG_LACKS)
foreach(requirement int_dot coopmat coopmat2)
    set(probe ${CMAKE_CURRENT_BINARY_DIR}/probe_${requirement}.comp)
    file(WRITE ${probe} "#version 460\n#extension ${extension_${requirement}} : require\nvoid main() {}\n")
    execute_process(COMMAND ${VKFORMER_GLSLANG_EXECUTABLE} -V --target-env vulkan1.3 -o ${probe}.spv ${probe}
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(NOT status EQUAL 0)
        list(APPEND VKFORMER_GLSLANG_LACKS ${requirement})
    endif()
endforeach()

message(STATUS "vkformer: shaders are compiled by ${VKFORMER_GLSLANG_EXECUTABLE}, version ${VKFORMER_GLSLANG_VERSION}")
if(VKFORMER_GLSLANG_LACKS)
    list(JOIN VKFORMER_GLSLANG_LACKS ", " lacks)
    message(STATUS "vkformer: this glslang knows nothing of: ${lacks}. scripts/setup.sh builds the pinned version "
        "${VKFORMER_GLSLANG_PINNED}, which knows all")
endif()
