#!/usr/bin/env bash
# Every engine call of `up`, `down` and `run` (one block), spoilt in every way: answered with 500, cut before it is passed on, done with
# its answer lost, hanging, a second late. After each case `down` must leave nothing. Prints a line per case (verb, number of the
# call, way, exit code, time, objects left before `down`, call), then how many there were, their exit codes and the longest time.
#
#   controller/tests/tools/every-call.sh [SHARD/SHARDS=0/1] [up|down|run]
#
# Shards share the cases among several machines, or several times. Long: about 5 s per case, 20 s where it is a block.
# Exit code: 0 all as it should be, 1 a case hung, left something, had a wrong verdict, or told no next step.
set -euo pipefail
cd "$(dirname "$0")/../../.."

told=$(mktemp)
trap 'rm -f "$told"' EXIT
code=0
EVERY_CALL=1 SHARD=${1:-0/1} VERB=${2:-} cargo test -p testbed --test docker_proxy -- \
  --ignored --exact --nocapture calls_that_are_spoilt_neither_hang_nor_leave_nor_lie | tee "$told" || code=1
echo
awk -F'\t' 'NF > 6 {
  verb = $1; cases[verb]++; split($4, said, " "); codes[verb " " $4]++
  sub(" s", "", $5); if ($5 + 0 > longest[verb]) { longest[verb] = $5 + 0; by[verb] = $3 " of call " $2 }
}
END {
  for (verb in cases) printf "%s: %d cases, the longest %.1f s (%s)\n", verb, cases[verb], longest[verb], by[verb]
  for (key in codes) printf "  %s: %d\n", key, codes[key]
}' "$told"
exit "$code"
