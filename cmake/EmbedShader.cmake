# cmake -D BINARY=x.spv -D NAME=x -D OUTPUT=x.cpp -D GZIP=gzip [-D SPIRV_OPT=spirv-opt] -P EmbedShader.cmake: one SPIR-V module,
# compressed, as a C++ array; with spirv-opt without the names of its variables, a seventh of its size.
file(READ ${BINARY} magic LIMIT 4 HEX)
if(NOT magic STREQUAL "03022307" AND NOT magic STREQUAL "07230203")
    message(FATAL_ERROR "${BINARY} is no SPIR-V module")
endif()
set(module ${BINARY})
if(SPIRV_OPT)
    # Debian 12's does not know the newest extensions: such a module keeps its names.
    execute_process(COMMAND ${SPIRV_OPT} --strip-debug ${BINARY} -o ${BINARY}.stripped RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
        set(module ${BINARY}.stripped)
    endif()
endif()
# -n: neither name nor time, so that equal shaders give equal bytes.
execute_process(COMMAND ${GZIP} -9 -n -c ${module} OUTPUT_FILE ${BINARY}.gz COMMAND_ERROR_IS_FATAL ANY)
file(READ ${BINARY}.gz hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "// Generated from ${NAME}.spv.
#include <span>

namespace vkformer::vulkan::spirv {
namespace {
constexpr unsigned char kBytes[] = {${bytes}};
}
extern const std::span<const unsigned char> ${NAME};
constinit const std::span<const unsigned char> ${NAME} = kBytes;
}   // namespace vkformer::vulkan::spirv
")
