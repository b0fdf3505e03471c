# cmake -D BINARIES=x.spv,y.spv -D OUTPUT=z.cpp -D XZ=xz [-D SPIRV_OPT=spirv-opt [-D SPIRV_REMAP=spirv-remap]] -P EmbedShader.cmake: the SPIR-V modules of one
# shader source, compressed together, as a C++ array: forms of one source share most of their words. With spirv-opt without the names
# of their variables, a seventh of their size. A module is called as its file.
string(REPLACE "," ";" binaries "${BINARIES}")
set(modules)
set(definitions)
set(offset 0)
foreach(binary IN LISTS binaries)
    get_filename_component(name ${binary} NAME_WE)
    file(READ ${binary} magic LIMIT 4 HEX)
    if(NOT magic STREQUAL "03022307" AND NOT magic STREQUAL "07230203")
        message(FATAL_ERROR "${binary} is no SPIR-V module")
    endif()
    set(module ${binary})
    if(SPIRV_OPT)
        # Debian 12's does not know the newest extensions: such a module keeps its names.
        execute_process(COMMAND ${SPIRV_OPT} --strip-debug ${binary} -o ${binary}.stripped RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
        if(status EQUAL 0)
            set(module ${binary}.stripped)
        endif()
    endif()
    list(APPEND modules ${module})
endforeach()
# The forms of a source have more in common with their ids numbered anew, the same for the same code. Where they are few the new numbers,
# which are longer, may cost more than they save, so what is smaller in the end is taken. Names, which it strips afterwards, tell
# spirv-remap what is the same. A module that spirv-opt does not know, or spirv-remap fails with, is not renumbered.
set(numbered)
if(SPIRV_REMAP)
    foreach(module IN LISTS modules)
        if(module MATCHES "[.]stripped$")
            string(REGEX REPLACE "[.]stripped$" "" binary ${module})
            get_filename_component(name ${binary} NAME)
            set(folder ${OUTPUT}.numbered)
            file(MAKE_DIRECTORY ${folder})
            file(REMOVE ${folder}/${name})
            execute_process(COMMAND ${SPIRV_REMAP} --map all --strip all -i ${binary} -o ${folder} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
            if(status EQUAL 0 AND EXISTS ${folder}/${name})
                set(module ${folder}/${name})
            endif()
        endif()
        list(APPEND numbered ${module})
    endforeach()
endif()
# lc, lp, pb: for data in words of four bytes. A small dictionary, since the decoder allocates as much.
function(compress modules output)
    execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${modules} OUTPUT_FILE ${output}.all COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${XZ} --stdout --threads=1 --check=crc32 --lzma2=preset=9e,dict=1MiB,lc=0,lp=2,pb=2 ${output}.all
                    OUTPUT_FILE ${output}.xz COMMAND_ERROR_IS_FATAL ANY)
endfunction()
set(compressed ${OUTPUT})
compress("${modules}" ${OUTPUT})
if(numbered)
    compress("${numbered}" ${OUTPUT}.numbered)
    file(SIZE ${OUTPUT}.xz bytes)
    file(SIZE ${OUTPUT}.numbered.xz numbered_bytes)
    if(numbered_bytes LESS bytes)
        set(compressed ${OUTPUT}.numbered)
        set(modules ${numbered})
    endif()
endif()
foreach(module IN LISTS modules)
    get_filename_component(name ${module} NAME_WE)
    file(SIZE ${module} bytes)
    string(APPEND definitions "extern const EmbeddedModule ${name};
constinit const EmbeddedModule ${name} = {kBytes, kContents, ${offset}, ${bytes}};
")
    math(EXPR offset "${offset} + ${bytes}")
endforeach()
file(READ ${compressed}.xz hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "// Generated from ${BINARIES}.
#include \"vulkan/shader_module.hpp\"

namespace vkformer::vulkan::spirv {
namespace {
constexpr unsigned char kBytes[] = {${bytes}};
constexpr std::uint32_t kContents = ${offset};
}
${definitions}}   // namespace vkformer::vulkan::spirv
")
