# cmake -D BINARY=x.spv -D NAME=x -D OUTPUT=x.cpp -P EmbedShader.cmake: one SPIR-V module as a C++ array of words.
file(READ ${BINARY} hex HEX)
string(SUBSTRING "${hex}" 0 8 magic)
set(byte "([0-9a-f][0-9a-f])")
if(magic STREQUAL "03022307")
    string(REGEX REPLACE "${byte}${byte}${byte}${byte}" "0x\\4\\3\\2\\1," words "${hex}")
elseif(magic STREQUAL "07230203")   # written on a big-endian machine
    string(REGEX REPLACE "${byte}${byte}${byte}${byte}" "0x\\1\\2\\3\\4," words "${hex}")
else()
    message(FATAL_ERROR "${BINARY} is no SPIR-V module")
endif()
file(WRITE ${OUTPUT} "// Generated from ${NAME}.spv.
#include <cstdint>
#include <span>

namespace vkformer::vulkan::spirv {
namespace {
constexpr std::uint32_t kWords[] = {${words}};
}
extern const std::span<const std::uint32_t> ${NAME};
constinit const std::span<const std::uint32_t> ${NAME} = kWords;
}   // namespace vkformer::vulkan::spirv
")
