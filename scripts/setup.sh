#!/usr/bin/env bash
# Installs what vkformer needs on Debian 12 or 13 and prepares the pinned shader compiler. Safe to run again.
#   scripts/setup.sh            what the library and the command line need
#   scripts/setup.sh --tests    that, and what the tests need
#   scripts/setup.sh --aarch64  what the library needs, and the preset aarch64: cross compiler, emulator, and arm64
#                               libraries in a folder
set -euo pipefail
. "$(dirname "$0")/debian_source.sh"

# Compiler and libraries; the Vulkan drivers are Mesa's, lavapipe (the CPU) among them.
packages=(
    build-essential cmake ninja-build ccache pkg-config
    libvulkan-dev libvulkan1 mesa-vulkan-drivers glslang-tools
    nlohmann-json3-dev libsentencepiece-dev libutf8proc-dev libpcre2-dev libopenblas-dev
    zlib1g-dev liblzma-dev xz-utils libpng-dev libjpeg62-turbo-dev spirv-tools
    libcli11-dev libboost-dev libedit-dev libsndfile1-dev libsamplerate0-dev libcld2-dev libicu-dev libcairo2-dev libpango1.0-dev fonts-dejavu-core libsdl2-dev libsdl2-ttf-dev
    ca-certificates dpkg-dev debian-archive-keyring
)
# chromium for one file: libvk_swiftshader.so, the second Vulkan driver that runs on the CPU.
# libshaderc-dev: `vkformer bench shader` takes GLSL then.
# libspirv-cross-c-shared-dev: what MoltenVK would make of the shaders.
# python3: the tests of tools/report.
# xvfb: the samples with a window run headless.
# g++-aarch64-linux-gnu: the kernels for ARM compile.
# python3-venv, python3-dev: the Python package is built and tested in a virtual environment.
test_packages=(catch2 python3 vulkan-validationlayers libshaderc-dev libspirv-cross-c-shared-dev chromium xvfb xauth python3-venv python3-dev
               g++-aarch64-linux-gnu)
# The preset aarch64: the compiler and the emulator are this machine's; its libraries stay as they are.
aarch64_packages=(g++-aarch64-linux-gnu qemu-user)
# What a program for arm64 is compiled, linked and run with. Catch2, Boost, CLI11 and nlohmann_json are headers for any
# machine.
sysroot_packages=(
    libc6-dev libstdc++6 libgcc-s1 libvulkan-dev libvulkan1
    nlohmann-json3-dev libsentencepiece-dev libutf8proc-dev libpcre2-dev libopenblas-dev
    zlib1g-dev liblzma-dev libpng-dev libjpeg62-turbo-dev
    libcli11-dev libboost-dev libedit-dev libsndfile1-dev libsamplerate0-dev libcld2-dev libicu-dev libcairo2-dev libpango1.0-dev fonts-dejavu-core
    catch2 libspirv-cross-c-shared-dev
)

pinned=15.1.0
glslang_dir="$cache_dir/glslang-$pinned"

is_debian_12() { grep -qx 'VERSION_ID="12"' /etc/os-release; }

# apt-get with Debian 12's backports for this call alone: the machine's apt sources stay as they are. Uses get of the caller.
with_backports() {
    local sources status=0
    sources=$(mktemp)
    cat /etc/apt/sources.list >"$sources" 2>/dev/null || true
    echo "deb [signed-by=$keyring] $(debian_mirror) bookworm-backports main" >>"$sources"
    local backports=(-o "Dir::Etc::SourceList=$sources")
    "${get[@]}" "${backports[@]}" update || true
    "${get[@]}" "${backports[@]}" -t bookworm-backports "$@" || status=$?
    rm -f "$sources"
    return "$status"
}

# Debian 12's Mesa is of 2022. Where a machine has no Vulkan driver yet, it gets the one of Debian 12's backports if it can be
# had; a driver that is installed is left alone. This comes after all other packages, so that apt brings those that must be of
# Mesa's version to it; the other way round it would refuse them. Uses get and install of the caller.
install_mesa() {
    if is_debian_12; then
        say "trying Debian 12's backports for a newer Mesa"
        if with_backports "${install[@]}" mesa-vulkan-drivers; then
            say "Mesa: $(version_of mesa-vulkan-drivers)"
            return
        fi
        say "no newer Mesa to be had, going on with Debian 12's own"
    fi
    "${get[@]}" "${install[@]}" mesa-vulkan-drivers
}

install_packages() {
    local missing=() package has_mesa=yes
    for package in $(missing_of "$@"); do
        if [ "$package" = mesa-vulkan-drivers ]; then has_mesa=no; else missing+=("$package"); fi
    done
    if [ ${#missing[@]} = 0 ] && [ "$has_mesa" = yes ]; then
        say "all ${#} Debian packages are there"
        return
    fi
    command -v apt-get >/dev/null ||
        die "this is no Debian system. Install what these packages hold, then build with cmake: ${missing[*]} mesa-vulkan-drivers"
    local get=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0)
    local install=(install --no-install-recommends)
    "${get[@]}" update || say "apt-get update had errors, going on with the package lists that are there"
    local advice="Check the network and /etc/apt/sources.list (Debian 12 or 13, component main), then run this again"
    if [ ${#missing[@]} != 0 ]; then
        say "installing ${#missing[@]} Debian packages: ${missing[*]}"
        # Where a Mesa of the backports is installed already, the development files beside it must be from there, too.
        "${get[@]}" "${install[@]}" "${missing[@]}" ||
            { is_debian_12 && say "trying again with Debian 12's backports" && with_backports "${install[@]}" "${missing[@]}"; } ||
            die "apt-get could not install: ${missing[*]}. $advice"
    fi
    if [ "$has_mesa" = no ]; then
        install_mesa || die "apt-get could not install mesa-vulkan-drivers, the Vulkan drivers. $advice"
    fi
}

glslang_version() {
    { "$1" --version 2>/dev/null || true; } | sed -n 's/^Glslang Version: [0-9]*:\([0-9.]*\).*/\1/p'
}

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

build_glslang() {
    local work=$1
    say "fetching the source package glslang $pinned of Debian 13"
    open_suite "$work" trixie || return 1
    fetch_source "$work" trixie glslang "$pinned" --skip-patches || return 1

    say "building glslang $pinned (two to five minutes, once)"
    cmake -G Ninja -S "$work/source/glslang" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$work/install" -DENABLE_OPT=OFF -DGLSLANG_TESTS=OFF -DENABLE_HLSL=OFF \
        -DBUILD_EXTERNAL=OFF -DBUILD_SHARED_LIBS=OFF || return 1
    cmake --build "$work/build" --target install || return 1
    local version
    version=$(glslang_version "$work/install/bin/glslang")
    # Debian's 15.1.0+1.4.309.0 is the state of Vulkan SDK 1.4.309.0, which calls itself 15.2.0 already.
    if [ -z "$version" ] || ! at_least "$version" "$pinned"; then
        say "the glslang that was built calls itself '$version'"
        return 1
    fi
    rm -rf "$glslang_dir"
    mkdir -p "$glslang_dir/bin"
    cp "$work/install/bin/glslang" "$glslang_dir/bin/"
}

prepare_glslang() {
    local installed work log
    if [ -n "$(glslang_version "$glslang_dir/bin/glslang")" ]; then
        say "shader compiler: $glslang_dir/bin/glslang"
        return
    fi
    installed=$(glslang_version glslangValidator || true)
    if [ -n "$installed" ] && at_least "$installed" "$pinned"; then
        say "shader compiler: the system's glslang $installed"
        return
    fi
    say "the system's glslang ${installed:-(none)} is older than the pinned $pinned and knows no cooperative matrices"
    mkdir -p "$cache_dir"
    work=$(mktemp -d "${TMPDIR:-/tmp}/vkformer-glslang.XXXXXX")
    log="$cache_dir/glslang-$pinned.log"
    if build_glslang "$work" >"$log" 2>&1; then
        say "shader compiler: $glslang_dir/bin/glslang"
    else
        say "glslang $pinned could not be fetched or built (see $log). Going on with the system's $installed;"
        say "shader variants that need a newer one are left out of the build. Run this again to retry."
    fi
    rm -rf "$work"
}

# What dpkg knows of a package that is unpacked in $sysroot, in a database of its own: cpack asks it which package a
# library is of. It gives files' names as they are found, so they begin with $place, where the folder is to lie.
record_package() {
    local archive=$1 sysroot=$2 place=$3 database="$2/var/lib/dpkg" name file
    name=$(dpkg-deb -f "$archive" Package)
    [ "$(dpkg-deb -f "$archive" Multi-Arch)" != same ] || name+=:arm64
    { echo "Status: install ok installed" && dpkg-deb -f "$archive" && echo; } >>"$database/status"
    dpkg-deb --fsys-tarfile "$archive" | tar -t | sed "s|^[.]|$place|; s|/$||" >"$database/info/$name.list"
    dpkg-deb -e "$archive" "$sysroot/control"
    for file in symbols shlibs; do
        [ ! -e "$sysroot/control/$file" ] || mv "$sysroot/control/$file" "$database/info/$name.$file"
    done
    rm -r "$sysroot/control"
}

# The release that this machine runs, for arm64, unpacked by `dpkg-deb -x`: no script of a package runs, and neither root
# nor a foreign architecture in this machine's dpkg is asked for.
make_sysroot() {
    local work=$1 sysroot=$2 place=$3 archive link target
    : >"$work/status"   # of the packages that a system for arm64 would have
    open_suite "$work" "$(. /etc/os-release && echo "$VERSION_CODENAME")" binaries \
        -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State::status=$work/status" \
        -o Debug::NoLocking=1 || return 1
    "${own_apt[@]}" install -y --download-only --no-install-recommends "${sysroot_packages[@]}" || return 1

    mkdir -p "$sysroot/usr/lib" "$sysroot/usr/bin" "$sysroot/usr/sbin"
    for link in lib bin sbin; do ln -s "usr/$link" "$sysroot/$link"; done
    mkdir -p "$sysroot/var/lib/dpkg/info" "$sysroot/var/lib/dpkg/updates"
    echo 1 >"$sysroot/var/lib/dpkg/info/format"
    printf '%s\n' "$(dpkg --print-architecture)" arm64 >"$sysroot/var/lib/dpkg/arch"
    for archive in "$work"/cache/archives/*.deb; do
        dpkg-deb -x "$archive" "$sysroot" && record_package "$archive" "$sysroot" "$place" || return 1
    done
    # What OpenBLAS's scripts would choose as the alternative.
    local libraries="$sysroot/usr/lib/aarch64-linux-gnu"
    for target in libopenblas.so libopenblas.so.0 libopenblas.a libblas.so.3 liblapack.so.3 pkgconfig/openblas.pc; do
        [ -e "$libraries/openblas-pthread/${target}" ] || continue
        ln -sf "$([[ $target = */* ]] && echo ../)openblas-pthread/$target" "$libraries/$target"
    done
    # Links that begin at the root begin at the folder's.
    find "$sysroot" -type l -lname '/*' -printf '%p %P %l\n' | while read -r link target archive; do
        ln -sf "$(sed 's|[^/]*/|../|g; s|[^/]*$||' <<<"$target")${archive#/}" "$link"
    done
}

prepare_sysroot() {
    local sysroot="$cache_dir/sysroot-aarch64" log="$cache_dir/sysroot-aarch64.log" work wanted
    wanted="$(. /etc/os-release && echo "$VERSION_CODENAME") ${sysroot_packages[*]} $sysroot"
    if [ "$(cat "$sysroot/made-of" 2>/dev/null)" = "$wanted" ]; then
        say "arm64 libraries: $sysroot"
        return
    fi
    mkdir -p "$cache_dir"
    work=$(mktemp -d "${TMPDIR:-/tmp}/vkformer-sysroot.XXXXXX")
    say "fetching arm64 libraries (see $log)"
    if make_sysroot "$work" "$work/sysroot" "$sysroot" >"$log" 2>&1; then
        echo "$wanted" >"$work/sysroot/made-of"
        rm -rf "$sysroot"
        mv "$work/sysroot" "$sysroot"
        rm -rf "$work"
        say "arm64 libraries: $sysroot"
    else
        rm -rf "$work"
        die "the arm64 libraries could not be fetched (see $log)"
    fi
}

wants_sysroot=no
case "${1:-}" in
"") ;;
--tests) packages+=("${test_packages[@]}") ;;
--aarch64) packages+=("${aarch64_packages[@]}") wants_sysroot=yes ;;
*) die "unknown argument $1; usage: scripts/setup.sh [--tests | --aarch64]" ;;
esac

install_packages "${packages[@]}"
prepare_glslang
if [ $wants_sysroot = yes ]; then prepare_sysroot; fi
