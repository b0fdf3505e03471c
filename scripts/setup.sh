#!/usr/bin/env bash
# Installs what vkformer needs on Debian 12 or 13 and prepares the pinned shader compiler. Safe to run again.
#   scripts/setup.sh            what the library and the command line need
#   scripts/setup.sh --tests    that, and what the tests need
set -euo pipefail
. "$(dirname "$0")/debian_source.sh"

# Compiler and libraries; the Vulkan drivers are Mesa's, lavapipe (the CPU) among them.
packages=(
    build-essential cmake ninja-build ccache pkg-config
    libvulkan-dev libvulkan1 mesa-vulkan-drivers glslang-tools
    nlohmann-json3-dev libsentencepiece-dev libutf8proc-dev libpcre2-dev libopenblas-dev
    zlib1g-dev liblzma-dev xz-utils libpng-dev libjpeg62-turbo-dev spirv-tools
    libcli11-dev libboost-dev libedit-dev libsndfile1-dev libsamplerate0-dev libcairo2-dev libpango1.0-dev fonts-dejavu-core libsdl2-dev libsdl2-ttf-dev
    ca-certificates dpkg-dev debian-archive-keyring
)
# chromium for one file: libvk_swiftshader.so, the second Vulkan driver that runs on the CPU.
# libshaderc-dev: `vkformer bench shader` takes GLSL then.
# libspirv-cross-c-shared-dev: what MoltenVK would make of the shaders.
# python3: the tests of tools/report.
# xvfb: the samples with a window run headless.
# python3-venv, python3-dev: the Python package is built and tested in a virtual environment.
test_packages=(catch2 python3 vulkan-validationlayers libshaderc-dev libspirv-cross-c-shared-dev chromium xvfb xauth python3-venv python3-dev)

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

case "${1:-}" in
"") ;;
--tests) packages+=("${test_packages[@]}") ;;
*) die "unknown argument $1; usage: scripts/setup.sh [--tests]" ;;
esac

install_packages "${packages[@]}"
prepare_glslang
