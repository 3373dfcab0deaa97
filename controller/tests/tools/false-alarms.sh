#!/usr/bin/env bash
# How often the trust cries wolf: undisturbed runs of blocks 1, 3 and 10 on one lab, a line per block with its trust and its
# verdicts. Says at the end how many tables were not sound and how many claims did not hold, and keeps their runs.
#
#   controller/tests/tools/false-alarms.sh [ROUNDS=20] [BLOCKS=1,3,10]
#
# On a machine with nothing else to do; a round takes about 40 s. LAB=NAME uses a lab that is up.
set -euo pipefail
cd "$(dirname "$0")/../../.."
rounds=${1:-20} blocks=${2:-1,3,10}

cargo build -q -p testbed
testbed=${CARGO_TARGET_DIR:-target}/debug/testbed
runs=$(mktemp -d)
lab=${LAB:-}
if [ -z "$lab" ]; then
  lab=false-alarms-$$
  trap '"$testbed" down -q -y -p "$lab" >/dev/null' EXIT
  "$testbed" up -q topologies/two-dc.yaml -p "$lab" >/dev/null
fi

# Of one report as text: block, trust with its reasons, and the number of claims that held, diverged, were inconclusive.
lines() {
  awk '
    function flush() { if (block != "") print block ": " trust " | " held " held, " diverged " diverged, " open " inconclusive" }
    /^Block / { flush(); block = $1 " " $2; trust = ""; held = diverged = open = 0; within = 0 }
    /^  ✓ / { held++ } /^  ✗ / { diverged++ } /^  \? / { open++ }
    /^  Checked:/ || /^$/ { within = 0 }
    within { sub(/^ +/, ""); trust = trust " " $0 }
    /^  Trust: / { sub(/^  Trust: +/, ""); trust = $0; within = 1 }
    /passed, [0-9]+ failed/ { flush(); block = "" }
  ' "$1"
}

for round in $(seq "$rounds"); do
  "$testbed" run -q -p "$lab" --only "$blocks" --out "$runs/$round" >/dev/null || true
  lines "$runs/$round/report.txt" | sed "s/^/run $round, /" | tee -a "$runs/lines.txt"
done
alarms=$(grep -vc ': sound |' "$runs/lines.txt" || true)
other=$(grep -vc ', 0 diverged, 0 inconclusive' "$runs/lines.txt" || true)
printf '%s tables: %s not sound, %s with claims that did not hold\n' "$(wc -l <"$runs/lines.txt")" "$alarms" "$other"
if [ "$alarms$other" = 00 ]; then
  rm -rf "$runs"
else
  echo "runs: $runs"
  exit 1
fi
