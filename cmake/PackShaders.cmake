# cmake -D STEMS=a,b -D OUTPUT=packed.inc -D XZ=xz -D PRESET=9e -P PackShaders.cmake: what StripShaders.cmake has written to a.bin, b.bin,
# compressed together, as a C++ string, and where the modules of each begin. Together, since the modules of different sources share most of
# their words, too; as a string, since compilers read one in a hundredth of the time that an array of numbers takes.
string(REPLACE "," ";" stems "${STEMS}")
set(contents)
set(offsets)
set(offset 0)
foreach(stem IN LISTS stems)
    list(APPEND contents ${stem}.bin)
    get_filename_component(name ${stem} NAME)
    string(APPEND offsets "constexpr std::uint32_t k_${name} = ${offset};\n")
    file(SIZE ${stem}.bin bytes)
    math(EXPR offset "${offset} + ${bytes}")
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} -E cat ${contents} OUTPUT_FILE ${OUTPUT}.bin COMMAND_ERROR_IS_FATAL ANY)
# lc, lp, pb: for data in words of four bytes.
execute_process(COMMAND ${XZ} --stdout --threads=1 --check=crc32 --lzma2=preset=${PRESET},dict=8MiB,lc=0,lp=2,pb=2 ${OUTPUT}.bin
                OUTPUT_FILE ${OUTPUT}.xz COMMAND_ERROR_IS_FATAL ANY)
file(READ ${OUTPUT}.xz hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
file(WRITE ${OUTPUT} "// Generated from the shaders.
constexpr unsigned char k_bytes[] = \"${bytes}\";
constexpr std::span<const unsigned char> kPacked{k_bytes, sizeof k_bytes - 1};
constexpr std::uint32_t kContents = ${offset};
${offsets}")
