#!/usr/bin/env bash
# Sets everything up, builds the release and translates: the arguments, or a few dates to begin with.
#   scripts/run.sh
#   scripts/run.sh "4. März 2021" "jeudi 4 mars 2021"
set -euo pipefail
cd "$(dirname "$0")/.."

model=samples/models/date-normalizer
dates=("$@")
if [ ${#dates[@]} = 0 ]; then
    dates=("March 4, 2021" "Donnerstag, den 4. März 2021" "4 de marzo de 2021" "1er janvier 1999" "3/4/2021" "4.3.2021")
fi

scripts/setup.sh

printf 'run: building build/release\n' >&2
cmake --preset release -Wno-dev >&2
cmake --build --preset release --parallel "$(nproc)" >&2

printf 'run: build/release/vkformer translate --model %s\n' "$model" >&2
printf '%s\n' "${dates[@]}" | build/release/vkformer translate --model "$model"
