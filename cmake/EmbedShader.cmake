# cmake -D BINARY=x.spv -D NAME=x -D OUTPUT=x.cpp -D GZIP=gzip -P EmbedShader.cmake: one SPIR-V module, compressed, as a C++ array.
file(READ ${BINARY} magic LIMIT 4 HEX)
if(NOT magic STREQUAL "03022307" AND NOT magic STREQUAL "07230203")
    message(FATAL_ERROR "${BINARY} is no SPIR-V module")
endif()
# -n: neither name nor time, so that equal shaders give equal bytes.
execute_process(COMMAND ${GZIP} -9 -n -c ${BINARY} OUTPUT_FILE ${BINARY}.gz COMMAND_ERROR_IS_FATAL ANY)
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
