# cmake -D INPUT=table.bin -D OUTPUT=packed.inc -D XZ=xz -D PRESET=9e -P PackShaders.cmake: what pack_shaders has written, compressed, as a
# C++ string. All modules together, since those of different sources share most of their words, too; as a string, since compilers read one
# in a hundredth of the time that an array of numbers takes.

# lc, lp, pb: for data in words of four bytes.
execute_process(COMMAND ${XZ} --stdout --threads=1 --check=crc32 --lzma2=preset=${PRESET},dict=8MiB,lc=0,lp=2,pb=2 ${INPUT}
                OUTPUT_FILE ${INPUT}.xz COMMAND_ERROR_IS_FATAL ANY)
file(READ ${INPUT}.xz hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
file(WRITE ${OUTPUT} "// Generated from the shaders.
constexpr unsigned char k_bytes[] = \"${bytes}\";
constexpr std::span<const unsigned char> kPacked{k_bytes, sizeof k_bytes - 1};
")
