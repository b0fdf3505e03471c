#!/usr/bin/env bash
# Prepares a Debian 12 or 13 machine to build vkformer for Windows (cmake --preset windows): installs MinGW-w64, and
# builds what vkformer links, as static libraries, from Debian 12's source packages, which apt fetches and whose
# signatures it checks. Safe to run again: what is there stays. It lands in $XDG_CACHE_HOME/vkformer (without the
# variable, ~/.cache/vkformer), with a log beside it.
#   scripts/windows_dependencies.sh            all that is not there yet
#   scripts/windows_dependencies.sh --again    everything anew
#   scripts/windows_dependencies.sh --help     this text
set -euo pipefail
. "$(dirname "$0")/debian_source.sh"
root=$(cd "$(dirname "$0")/.." && pwd)

# cmake/toolchains/x86_64-w64-mingw32.cmake looks for it under this name; who changes how something is built counts
# it up in both.
stamp=debian12-3
suite=bookworm
triple=x86_64-w64-mingw32
prefix="$cache_dir/windows-$stamp"
log="$prefix.log"
jobs=$(nproc)

# llvm: its dlltool makes the import library that Microsoft's linker takes. nasm: the SIMD of libjpeg-turbo.
packages=(
    build-essential g++-mingw-w64-x86-64-posix cmake ninja-build pkg-config nasm llvm
    ca-certificates dpkg-dev patch xz-utils debian-archive-keyring
)

# Headers without a library come from Debian 12's binary packages: they are the same for every system. So does the zlib
# that Debian builds for Windows itself.
header_packages=(libvulkan-dev nlohmann-json3-dev libcli11-dev libboost1.74-dev catch2 libz-mingw-w64-dev)

# Source packages and their upstream versions, in the order in which they need each other.
sources=(
    utf8proc=2.8.0
    pcre2=10.42
    xz-utils=5.4.1
    libpng1.6=1.6.39
    libjpeg-turbo=2.1.5
    sentencepiece=0.1.97
    openblas=0.3.21
    freetype=2.12.1
    libsdl2=2.26.5
    libsdl2-ttf=2.20.1
)

# --- What the builders use. A builder's output goes to the log, and it ends at the first command that fails.

# cmake_build NAME TARGET [OPTION…]: builds that target of a source package in $work/build/NAME.
cmake_build() {
    local name=$1 build_target=$2
    shift 2
    cmake -G Ninja -S "$work/source/$name" -B "$work/build/$name" -Wno-dev \
        -DCMAKE_TOOLCHAIN_FILE="$root/cmake/toolchains/$triple.cmake" -DVKFORMER_WINDOWS_PREFIX="$prefix" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_C_FLAGS_RELEASE="$optimise" -DCMAKE_CXX_FLAGS_RELEASE="$optimise" "$@"
    cmake --build "$work/build/$name" --target "$build_target" --parallel "$jobs"
}
# Sections, so that the linker leaves out what is not called. A builder of what takes no time sets optimise for size.
optimise="-O2 -DNDEBUG -ffunction-sections -fdata-sections"
for_size=${optimise/-O2/-Oz}

# lacks FILE PATTERN: whether an edit has done what it is for; the file may be another one than the edit knew.
lacks() {
    if grep -Eq "$2" "$1"; then
        echo "$1 still has $2" >&2
        return 1
    fi
}

# install_library FILE NAME
install_library() { install -D -m 644 "$1" "$prefix/lib/lib$2.a"; }
install_headers() { install -D -m 644 -t "$prefix/include" "$@"; }
# install_license NAME FILE
install_license() { install -D -m 644 "$2" "$prefix/share/licenses/$1/copyright"; }

# pkg_config MODULE VERSION LIBRARIES [FLAGS [REQUIRES]]: what a static library needs is named as its users' own need.
pkg_config() {
    mkdir -p "$prefix/lib/pkgconfig"
    cat >"$prefix/lib/pkgconfig/$1.pc" <<END
prefix=\${pcfiledir}/../..
Name: $1
Description: Debian 12's, for Windows
Version: $2
Requires: ${5:-}
Libs: -L\${prefix}/lib $3
Cflags: -I\${prefix}/include ${4:-}
END
}

# cmake_config PACKAGE VERSION TARGET: a package of headers.
cmake_config() {
    local folder="$prefix/lib/cmake/$1"
    mkdir -p "$folder"
    cat >"$folder/$1Config.cmake" <<END
if(NOT TARGET $3)
    add_library($3 INTERFACE IMPORTED)
    set_target_properties($3 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES \${CMAKE_CURRENT_LIST_DIR}/../../../include)
endif()
END
    cat >"$folder/$1ConfigVersion.cmake" <<END
set(PACKAGE_VERSION $2)
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
END
}

# --- The builders: build_NAME VERSION, where NAME has _ for what is no letter or digit.

build_headers() {
    local folder="$work/headers" package version
    mkdir -p "$folder/files"
    (cd "$folder/files" && "${own_apt[@]}" download "${header_packages[@]}")
    for package in "${header_packages[@]}"; do
        dpkg-deb -x "$folder/files/${package}"_*.deb "$folder"
        install_license "$package" "$folder/usr/share/doc/$package/copyright"
    done
    mkdir -p "$prefix/include" "$prefix/lib/cmake"
    cp -r "$folder"/usr/include/* "$prefix/include/"
    version_in() { dpkg-deb -f "$folder/files/$1"_*.deb Version | sed 's/^[0-9]*://; s/[-+].*//'; }
    cmake_config VulkanHeaders "$(version_in libvulkan-dev)" Vulkan::Headers
    cmake_config nlohmann_json "$(version_in nlohmann-json3-dev)" nlohmann_json::nlohmann_json
    cmake_config CLI11 "$(version_in libcli11-dev)" CLI11::CLI11
    cmake_config Catch2 "$(version_in catch2)" Catch2::Catch2
    cp "$folder"/usr/lib/cmake/Catch2/{Catch,CatchAddTests,ParseAndAddCatchTests}.cmake "$prefix/lib/cmake/Catch2/"
    echo 'list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})' >>"$prefix/lib/cmake/Catch2/Catch2Config.cmake"

    install_headers "$folder/usr/$triple"/include/*
    install_library "$folder/usr/$triple/lib/libz.a" z
    pkg_config zlib "$(version_in libz-mingw-w64-dev)" -lz
    # What a program that calls Vulkan itself links: vulkan-1.dll is the driver's, or Wine's.
    local names="$prefix/include/vulkan" definition="$folder/vulkan-1.def"
    { printf 'LIBRARY vulkan-1.dll\nEXPORTS\n'; sed -n 's/.*VKAPI_CALL \(vk[A-Za-z0-9]*\)(.*/\1/p' \
        "$names"/vulkan_{core,win32}.h; } >"$definition"
    $triple-dlltool -d "$definition" -l "$folder/libvulkan-1.a"
    install_library "$folder/libvulkan-1.a" vulkan-1
    # What every program gets from the compiler.
    install_license gcc-runtime /usr/share/doc/gcc-mingw-w64-x86-64-posix-runtime/copyright
    install_license mingw-w64-runtime /usr/share/doc/mingw-w64-x86-64-dev/copyright
}

# Its 8,251 records take 16 bytes instead of 24: members of the size of their values, and no case folding, which nothing
# here asks for and whose names are taken out.
build_utf8proc() {
    local folder="$work/source/utf8proc"
    sed -i -E '/^typedef struct utf8proc_property_struct/,/^}/{
        s/utf8proc_propval_t (category|combining_class|bidi_class|decomp_type);/utf8proc_uint8_t \1;/
        s/unsigned (\w+:[128];)/utf8proc_uint16_t \1/}' "$folder/utf8proc.h"
    sed -i '/casefold_seqindex;/d; /UTF8PROC_CASEFOLD  =/d; /utf8proc_NFKC_Casefold(/d' "$folder/utf8proc.h"
    sed -i '/UTF8PROC_CASEFOLD) {/,/^  }/d; /utf8proc_NFKC_Casefold/,/^}/d' "$folder/utf8proc.c"
    perl -pi -e 's/^(  \{(?:[^,]*, ){5})[^,]*, /$1/' "$folder/utf8proc_data.c"
    lacks "$folder/utf8proc.h" 'casefold_seqindex|UTF8PROC_CASEFOLD +='
    lacks "$folder/utf8proc_data.c" '^  \{([^,]*,){17}'   # values and a comma behind each: one less than there were
    echo '_Static_assert(sizeof(utf8proc_property_t) == 16, "records of 16 bytes");' >>"$folder/utf8proc.c"
    cmake_build utf8proc utf8proc
    install_library "$work/build/utf8proc/libutf8proc.a" utf8proc
    install_headers "$work/source/utf8proc/utf8proc.h"
    pkg_config libutf8proc "$1" -lutf8proc -DUTF8PROC_STATIC
}

build_pcre2() {
    local optimise=$for_size   # matching is done by what its compiler makes of a pattern
    cmake_build pcre2 pcre2-8-static -DPCRE2_SUPPORT_JIT=ON -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
    install_library "$work/build/pcre2/libpcre2-8.a" pcre2-8
    install_headers "$work/build/pcre2/pcre2.h"
    pkg_config libpcre2-8 "$1" -lpcre2-8 -DPCRE2_STATIC
}

# What decodes vkformer's own shaders: LZMA2 with CRC32.
build_xz_utils() {
    sed -i -E '/^ +HAVE_(CHECK_(CRC64|SHA256)|DECODER_(ARM|ARMTHUMB|ARM64|DELTA|IA64|POWERPC|SPARC|X86))$/d' \
        "$work/source/xz-utils/CMakeLists.txt"
    lacks "$work/source/xz-utils/CMakeLists.txt" '^ +HAVE_(CHECK_(CRC64|SHA256)|DECODER_(ARM|DELTA|IA64|POWERPC|SPARC|X86))'
    local optimise=$for_size   # but for what takes the time
    echo 'set_source_files_properties(src/liblzma/lzma/lzma_decoder.c PROPERTIES COMPILE_OPTIONS -O2)' \
        >>"$work/source/xz-utils/CMakeLists.txt"
    cmake_build xz-utils liblzma
    install_library "$work/build/xz-utils/liblzma.a" lzma
    install_headers "$work/source/xz-utils/src/liblzma/api/lzma.h"
    cp -r "$work/source/xz-utils/src/liblzma/api/lzma" "$prefix/include/"
    pkg_config liblzma "$1" -llzma -DLZMA_API_STATIC
}

build_libpng1_6() {
    local optimise=$for_size   # most of the time is zlib's and that of filters in SSE2
    cmake_build libpng1.6 png_static -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF
    install_library "$(find "$work/build/libpng1.6" -name 'libpng*.a' | head -n 1)" png
    install_headers "$work"/source/libpng1.6/{png,pngconf}.h "$work/build/libpng1.6/pnglibconf.h"
    pkg_config libpng "$1" -lpng "" zlib
}

# Of the decoder what vkformer uses: the accurate transform at full size, chroma by interpolation, all colours.
build_libjpeg_turbo() {
    sed -i -E 's/^#define ((DCT_(IFAST|FLOAT)|IDCT_SCALING|UPSAMPLE_MERGING|QUANT_[12]PASS)_SUPPORTED)/#undef \1/' \
        "$work/source/libjpeg-turbo/jmorecfg.h"
    lacks "$work/source/libjpeg-turbo/jmorecfg.h" '^ *# *define +(DCT_(IFAST|FLOAT)|IDCT_SCALING|UPSAMPLE_MERGING|QUANT)'
    # Most of the time is that of Huffman codes and of SIMD. The table of a switch would keep its function, and so the
    # encoder's SIMD; JPEGMEM would bring scanf.
    local optimise="$for_size -fno-jump-tables -DNO_GETENV"
    echo 'set_source_files_properties(jdhuff.c jdphuff.c PROPERTIES COMPILE_OPTIONS -O2)' \
        >>"$work/source/libjpeg-turbo/CMakeLists.txt"
    cmake_build libjpeg-turbo jpeg-static -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DREQUIRE_SIMD=ON
    install_library "$work/build/libjpeg-turbo/libjpeg.a" jpeg
    install_headers "$work"/source/libjpeg-turbo/{jpeglib,jmorecfg,jerror}.h "$work/build/libjpeg-turbo/jconfig.h"
    pkg_config libjpeg "$1" -ljpeg
}

# Without C++'s streams, which bring libstdc++'s locales (0.3 MB of every program): messages are put together by a class
# of their own, and it opens no file, since vkformer hands it what is in one.
leave_out_streams() {
    local folder=$1
    cat >"$folder/src/text_stream.h" <<'END'
#pragma once
#include <stdio.h>
#include <string>
#include <type_traits>
#include "third_party/absl/strings/string_view.h"
namespace sentencepiece {
// Takes text and numbers by <<, for a string, or for the standard error.
class TextStream {
 public:
  explicit TextStream(FILE *file = nullptr) : file_(file) {}
  TextStream &operator<<(absl::string_view text) {
    if (file_) fwrite(text.data(), 1, text.size(), file_);
    else text_.append(text.data(), text.size());
    return *this;
  }
  TextStream &operator<<(const std::string &text) { return *this << absl::string_view(text); }
  TextStream &operator<<(const char *text) { return *this << absl::string_view(text); }
  TextStream &operator<<(char letter) { return *this << absl::string_view(&letter, 1); }
  template <typename T>
  typename std::enable_if<std::is_integral<T>::value || std::is_enum<T>::value, TextStream &>::type
  operator<<(T value) {
    return *this << std::to_string(static_cast<long long>(value));
  }
  TextStream &operator<<(double value) {
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    return *this << text;
  }
  const std::string &str() const { return text_; }

 private:
  FILE *file_;
  std::string text_;
};
}  // namespace sentencepiece
END
    cat >"$folder/src/filesystem.cc" <<'END'
#include "filesystem.h"
#include "util.h"
namespace sentencepiece {
namespace filesystem {
struct NoFile : ReadableFile, WritableFile {
  util::Status status() const override { return util::UnimplementedError("this build opens no files"); }
  bool ReadLine(std::string *) override { return false; }
  bool ReadAll(std::string *) override { return false; }
  bool Write(absl::string_view) override { return false; }
  bool WriteLine(absl::string_view) override { return false; }
};
std::unique_ptr<ReadableFile> NewReadableFile(absl::string_view, bool) {
  return std::unique_ptr<ReadableFile>(new NoFile);
}
std::unique_ptr<WritableFile> NewWritableFile(absl::string_view, bool) {
  return std::unique_ptr<WritableFile>(new NoFile);
}
}  // namespace filesystem
}  // namespace sentencepiece
END
    # Flags are those of a command line, and so is the conversion of their values; that of hexadecimal numbers is its
    # trainer's.
    cat >"$folder/third_party/absl/flags/flag.cc" <<'END'
#include "third_party/absl/flags/flag.h"
namespace absl {
void CleanupFlags() {}
}  // namespace absl
END
    sed -i '/^inline bool lexical_cast(absl::string_view arg, Target/,/^}/c bool lexical_cast(absl::string_view, Target *);
        /^template <typename T>$/{N; /IntToHex\|HexToInt/{:a; N; /\n}$/!ba; d}}' "$folder/src/util.h"
    sed -i 's/<sstream>/<stdlib.h>/; s/  std::stringstream ss;/  char *end;/
        s/  return (ss << .*/  *result = strtol(s.data(), \&end, 10);\n  return end != s.data();/' \
        "$folder/third_party/absl/strings/numbers.h"
    sed -i '/<sstream>/d; /^inline std::string StrCat(int v/,/^}/c inline std::string StrCat(int v) { return std::to_string(v); }' \
        "$folder/third_party/absl/strings/str_cat.h"
    sed -i 's/std::cerr << std::endl/fputs("\\n", stderr)/; s/<< std::endl/<< "\\n"/
        s/std::cerr/::sentencepiece::TextStream(stderr)/; s/std::o\(string\)\?stream/::sentencepiece::TextStream/g
        s/<\(iostream\|fstream\|sstream\)>/"text_stream.h"/' "$folder"/src/{common,util,filesystem}.h \
        "$folder"/src/{error,util}.cc
    sed -i 's/<iostream>/<istream>/' \
        "$folder"/third_party/protobuf-lite/{zero_copy_stream_impl.cc,google/protobuf/stubs/common.h}
}

# With the protobuf-lite and the parts of Abseil that its source has. Debian leaves the static library out, by a patch.
build_sentencepiece() {
    local folder="$work/source/sentencepiece"
    patch -d "$folder" -R -p1 <"$folder/debian/patches/disable-static-library.patch"
    leave_out_streams "$folder"
    local optimise=$for_size
    cmake_build sentencepiece sentencepiece-static -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF
    install_library "$work/build/sentencepiece/src/libsentencepiece.a" sentencepiece
    install_headers "$folder/src/sentencepiece_processor.h"
}

# CBLAS in float and double, for processors with AVX2 and for those without. Its makefiles compare `gcc -dumpversion`
# with numbers, which is "12-posix" here. NUM_THREADS: the most that it ever uses, not what this machine has.
build_openblas() {
    local folder="$work/source/openblas"
    sed -i 's/ -dumpversion/ -dumpversion | cut -d- -f1/' "$folder/Makefile.system" "$folder/c_check"
    # Windows' threads mention products of complex matrices, which are left out, in a branch that is not taken then.
    sed -i 's/[CZ]GEMM_[PQ]/0/g' "$folder/driver/others/blas_server_win32.c"
    # vkformer calls gemm and gemv. The table of kernels for a kind of processor names all others too, which would be
    # 0.8 MB of every program; the functions that would call them are taken out below.
    perl -pi -e 's/\b(?![sd]gem[mv]_|[sd](axpy|copy|dot|scal)_kTS)(is|id|s|d)\w+TS\b/0/g' \
        "$folder/kernel/setparam-ref.c"
    local options=(CC=$triple-gcc-posix AR=$triple-ar RANLIB=$triple-ranlib HOSTCC=gcc BINARY=64
        DYNAMIC_ARCH=1 TARGET=PRESCOTT DYNAMIC_LIST=HASWELL BUILD_SINGLE=1 BUILD_DOUBLE=1 ONLY_CBLAS=1 NO_LAPACK=1
        NO_LAPACKE=1 NO_SHARED=1 NO_FORTRAN=1 USE_THREAD=1 NUM_THREADS=64 NO_WARMUP=1 MAKE_NB_JOBS=0
        "CFLAGS=-O2 -DWIN32_LEAN_AND_MEAN -Wa,-muse-unaligned-vector-move")
    make -C "$folder" -s -j "$jobs" "${options[@]}" libs
    make -C "$folder" -s "${options[@]}" PREFIX="$work/openblas" install
    local library
    library=$(find "$work/openblas/lib" -name 'libopenblas*.a' -type f | head -n 1)
    $triple-ar t "$library" | grep '^cblas_' | grep -v '^cblas_[sd]gem[mv][.]' | xargs $triple-ar d "$library"
    install_library "$library" openblas
    install_headers "$work"/openblas/include/{cblas,openblas_config}.h
    pkg_config openblas "$1" -lopenblas
}

# The samples' windows and texts: SDL2 without sound, joysticks and renderers of its own, fonts as they are.
build_freetype() {
    local optimise=$for_size
    cmake_build freetype freetype -DFT_REQUIRE_ZLIB=ON -DFT_DISABLE_BZIP2=ON -DFT_DISABLE_PNG=ON \
        -DFT_DISABLE_HARFBUZZ=ON -DFT_DISABLE_BROTLI=ON
    install_library "$work/build/freetype/libfreetype.a" freetype
    mkdir -p "$prefix/include/freetype2"
    cp -r "$work"/source/freetype/include/{freetype,ft2build.h} "$prefix/include/freetype2/"
    pkg_config freetype2 "$1" -lfreetype "-I\${prefix}/include/freetype2" zlib
}

build_libsdl2() {
    local optimise=$for_size part options=()
    for part in AUDIO JOYSTICK HAPTIC SENSOR HIDAPI RENDER OPENGL OPENGLES DIRECTX TEST SHARED; do
        options+=("-DSDL_$part=OFF")
    done
    cmake_build libsdl2 all -DSDL_STATIC=ON -DSDL_VULKAN=ON "${options[@]}"
    install_library "$work/build/libsdl2/libSDL2.a" SDL2
    install_library "$work/build/libsdl2/libSDL2main.a" SDL2main
    DESTDIR="$work/sdl2" cmake --install "$work/build/libsdl2"
    cp -r "$work/sdl2/usr/include/SDL2" "$prefix/include/"
    # Its main() calls the program's, which SDL.h renames.
    local windows="-luser32 -lgdi32 -lwinmm -limm32 -lole32 -loleaut32 -lversion -luuid -ladvapi32 -lsetupapi -lshell32"
    pkg_config sdl2 "$1" "-lmingw32 -lSDL2main -lSDL2 $windows" "-I\${prefix}/include/SDL2"
}

build_libsdl2_ttf() {
    local folder="$work/source/libsdl2-ttf"
    (cd "$folder" && $triple-gcc-posix $for_size -DTTF_USE_HARFBUZZ=0 -I. -I"$prefix/include/SDL2" \
        -I"$prefix/include/freetype2" -c SDL_ttf.c -o SDL_ttf.o)
    $triple-ar rcs "$folder/libSDL2_ttf.a" "$folder/SDL_ttf.o"
    install_library "$folder/libSDL2_ttf.a" SDL2_ttf
    install -D -m 644 -t "$prefix/include/SDL2" "$folder/SDL_ttf.h"
    pkg_config SDL2_ttf "$1" -lSDL2_ttf "" "sdl2 freetype2"
}

# --- The run.

# Sets cpu_seconds: the CPU time of what this script has run so far. Not in a subshell, which counts its own.
count_cpu_seconds() {
    times >"$work/times"
    cpu_seconds=$(awk -F '[ms ]+' 'NR == 2 { printf "%.0f", 60 * ($1 + $3) + $2 + $4 }' "$work/times")
}

# run_step NAME VERSION: fetches and builds it unless that was done before.
run_step() {
    local name=$1 version=$2 mark="$prefix/share/built/$1-$2" status before
    if [ -e "$mark" ]; then
        say "$name $version is there"
        return
    fi
    say "building $name $version"
    count_cpu_seconds
    before=$cpu_seconds
    # Not as a condition: in one, the shell would go on after a command that fails.
    set +e
    (
        set -e
        if [ "$name" != headers ]; then
            fetch_source "$work" "$suite" "$name" "$version"
            install_license "$name" "$work/source/$name/debian/copyright"
        fi
        "build_${name//[^a-z0-9]/_}" "$version"
    ) >>"$log" 2>&1
    status=$?
    set -e
    [ "$status" = 0 ] || die "$name $version could not be fetched or built, see the end of $log"
    count_cpu_seconds
    say "$name $version: $((cpu_seconds - before)) s of CPU time"
    rm -rf "$work/build/$name" "$work/source/$name" "$work/headers"
    mkdir -p "$prefix/share/built"
    touch "$mark"
}

install_packages() {
    local missing
    mapfile -t missing < <(missing_of "${packages[@]}")
    if [ ${#missing[@]} = 0 ]; then
        say "all ${#packages[@]} Debian packages are there"
        return
    fi
    command -v apt-get >/dev/null || die "this is no Debian system; what it builds is made of Debian's source packages"
    say "installing ${#missing[@]} Debian packages: ${missing[*]}"
    local get=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
    "${get[@]}" update || say "apt-get update had errors, going on with the package lists that are there"
    "${get[@]}" install --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}. Check the network and apt's sources, then run this again"
}

case "${1:-}" in
"") ;;
--again) rm -rf "$prefix" ;;
--help)
    sed -n '2,/^set /{ /^set /d; s/^# \{0,1\}//; p; }' "$0"
    exit 0
    ;;
*) die "unknown argument $1; usage: scripts/windows_dependencies.sh [--again | --help]" ;;
esac

install_packages
mkdir -p "$prefix/lib"
all_there=yes
for step in headers=2 "${sources[@]}"; do
    [ -e "$prefix/share/built/${step%=*}-${step#*=}" ] || all_there=no
done
if [ "$all_there" = no ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/vkformer-windows.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "what the steps say goes to $log"
    : >"$log"
    open_suite "$work" "$suite" security binaries >>"$log" 2>&1 ||
        die "apt could not fetch the package lists of Debian 12, see the end of $log"
    for step in headers=2 "${sources[@]}"; do
        run_step "${step%=*}" "${step#*=}"
    done
fi
say "all is in $prefix; now: cmake --preset windows"
