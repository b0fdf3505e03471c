#!/usr/bin/env bash
# Everything that a real GPU should be asked on the day that one is there, in at most eight minutes: see --help.
#   scripts/gpu_day.sh --out day
#   scripts/gpu_day.sh --out day --device 0 --peer peer
set -euo pipefail
exec python3 "$(dirname "$0")/../tools/report/gpu_day.py" "$@"
