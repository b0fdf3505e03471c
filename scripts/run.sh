#!/usr/bin/env bash
# Sets everything up, builds the release and runs a model of the repository: translates dates (the arguments, or a few to begin with), or
# goes on with a text.
#   scripts/run.sh
#   scripts/run.sh "4. März 2021" "jeudi 4 mars 2021"
#   scripts/run.sh generate "In the beginning"
#   scripts/run.sh generate --temperature 0.7 --seed 5 -n 200 "And it came to pass"    # with any options of the command
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = generate ]; then
    shift
    [ $# -gt 0 ] || set -- "In the beginning"
    drawing=(--echo --temperature 0.7 --top-p 0.9 -n 128)
    for argument in "$@"; do
        case "$argument" in -*) drawing=() ;; esac
    done
    command=(generate ${drawing[@]+"${drawing[@]}"} "$@")
    lines=()
else
    command=(translate --model samples/models/date-normalizer)
    lines=("$@")
    if [ ${#lines[@]} = 0 ]; then
        lines=("March 4, 2021" "Donnerstag, den 4. März 2021" "4 de marzo de 2021" "1er janvier 1999" "3/4/2021" "4.3.2021")
    fi
fi

scripts/setup.sh

printf 'run: building build/release\n' >&2
cmake --preset release -Wno-dev >&2
cmake --build --preset release --parallel "$(nproc)" >&2

printf 'run: build/release/vkformer %s\n' "${command[*]}" >&2
if [ ${#lines[@]} = 0 ]; then
    build/release/vkformer "${command[@]}"
else
    printf '%s\n' "${lines[@]}" | build/release/vkformer "${command[@]}"
fi
