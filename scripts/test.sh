#!/usr/bin/env bash
# Sets everything up, builds the tests and runs them on every Vulkan driver there is and on the CPU, once as they are and once
# under AddressSanitizer and UndefinedBehaviorSanitizer.
#   scripts/test.sh             what a developer runs
#   scripts/test.sh --ci        the same with compiler warnings as errors
#   scripts/test.sh --quick     without the sanitizers
#   scripts/test.sh --thorough  every case on every device; devices that are CPUs, whose compilers are slow, share them otherwise
set -euo pipefail
cd "$(dirname "$0")/.."

preset=dev
sanitize=yes
for argument in "$@"; do
    case "$argument" in
    --ci) preset=ci ;;
    --quick) sanitize=no ;;
    --thorough) export VKFORMER_TEST_THOROUGH=1 ;;
    *)
        echo "test: unknown argument $argument; usage: scripts/test.sh [--ci] [--quick] [--thorough]" >&2
        exit 2
        ;;
    esac
done

say() { printf 'test: %s\n' "$*" >&2; }

scripts/setup.sh --tests

# The loader looks for drivers in the system's folders; SwiftShader comes inside Debian's chromium and is in none of them.
if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ]; then
    drivers=""
    for file in /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json /usr/lib/chromium/vk_swiftshader_icd.json; do
        if [ -e "$file" ]; then drivers="$drivers${drivers:+:}$file"; fi
    done
    export VK_DRIVER_FILES="$drivers" VK_ICD_FILENAMES="$drivers"
fi
say "Vulkan drivers: ${VK_DRIVER_FILES:-$VK_ICD_FILENAMES}"

# lavapipe optimises every shader for longer than the tests then run it. What the shaders compute is the same without.
if [ -z "${VKFORMER_TEST_THOROUGH:-}" ]; then export GALLIVM_PERF="${GALLIVM_PERF-nopt}"; fi

jobs=$(nproc)
status=0

build() {
    say "building build/$1"
    cmake --preset "$1" -Wno-dev
    cmake --build --preset "$1" --parallel "$jobs"
}

build "$preset"
if [ "$sanitize" = yes ]; then
    build asan
    say "running the tests under AddressSanitizer and UndefinedBehaviorSanitizer"
    ctest --preset asan --parallel "$jobs" || status=1
    [ "$status" = 0 ] || say "there are failures under the sanitizers, see above"
fi

# The package as `pip install .` makes it, but that the library is the one that was just built: only the extension module is compiled.
test_python() {
    local folder=$PWD/build/$preset/python
    say "building the Python package and running its tests"
    rm -rf "$folder"
    cmake --install "build/$preset" --prefix "$folder/vkformer" >/dev/null || return 1
    /usr/bin/python3 -m venv "$folder/venv" || return 1
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check '.[ray]' pytest mypy "pyright[nodejs]" openai anthropic libretranslatepy websocket-client \
        --config-settings=build-dir="$folder/module" --config-settings=cmake.define.VKFORMER_PYTHON_INSTALLED=ON \
        --config-settings=cmake.define.CMAKE_PREFIX_PATH="$folder/vkformer" || return 1
    local pytest=(env VKFORMER_PROGRAM="$folder/vkformer/bin/vkformer" OPENBLAS_NUM_THREADS=1
        "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider) failed=0
    "${pytest[@]}" tests/serve >"$folder/serve.log" 2>&1 &
    local server=$!
    "${pytest[@]}" python/tests 2>&1 | tee "$folder/package.log" || failed=1
    say "the tests of the server, with the clients that people have, which ran beside them"
    wait "$server" || failed=1
    cat "$folder/serve.log"
    return $failed
}
python_status=0
test_python || python_status=$?

say "running the tests of build/$preset"
ctest --preset "$preset" --parallel "$jobs" || status=1

# Said last: thousands of lines of ctest's stand between the failures and here, and of a long output often the end alone is kept.
if [ "$python_status" != 0 ]; then
    status=1
    say "the Python package or the server has failures:"
    for log in package serve; do
        summary=$(sed -n '/^=* short test summary/,$p' "build/$preset/python/$log.log" 2>/dev/null) || summary=""
        [ -z "$summary" ] || printf '%s\n' "$summary" >&2
    done
fi
exit "$status"
