#!/usr/bin/env bash
# The same build entered twice under two names: two folders with the server of one image, blocks 1, 3 and 10, all rounds interleaved.
# Counts the claims whose verdict differs, and the times that are said to have moved beyond noise, against the stated error rate.
#
#   controller/tests/tools/same-twice.sh [ROUNDS=20] [BLOCKS=1,3,10]
#
# On a machine with nothing else to do; --dry-run of such a matrix says how long it takes. IMAGE is where the server comes from (testbed/redis:7.0.15),
# SEED that of the matrix, TESTBED the program (default: target/debug/testbed). With few rounds nothing can be said to be beyond
# noise, so that only the claims are a check. Exit code: 0 nothing differs more often than is stated, 1 something does; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

rounds=${1:-20} blocks=${2:-1,3,10}
image=${IMAGE:-testbed/redis:7.0.15}
testbed=$(realpath -m "${TESTBED:-target/debug/testbed}")
[ -x "$testbed" ] || {
  echo "skipped: no $testbed (cargo build)" >&2
  exit 4
}
. controller/tests/tools/build-folder.sh
place=$(mktemp -d)
build_folder "$image" "$place/a-build"
cp -a "$place/a-build" "$place/b-build"

code=0
(cd "$place" && "$testbed" --quiet matrix --release redis=./a-build --release redis=./b-build --only "$blocks" --repeat "$rounds" \
  --seed "${SEED:-1}" --out "$place/matrix") >"$place/out" || code=$?
# A verdict, or a cell that was not completed (5), is a result once there is a report.
case $code in
  0 | 5 | 10 | 11) ;;
  *) exit "$code" ;;
esac
report=$place/matrix/report.json
[ -s "$report" ] || exit "$code"
jq -r '"\(.test.comparisons) comparisons, at most \(.test.false_share) of the moves beyond noise false: \(.test.method)"' "$report"
claims=$(jq '.claims | length' "$report")
differ=$(jq '.moved | length' "$report")
jq -r '.moved[] | "differs: \(.claim): \(.from) and \(.to): \(.reason)"' "$report"
missing=$(jq '.incomplete | length' "$report")
moves='[.numbers[] | select(.control | not) | .moves[]]'
numbers=$(jq "$moves | length" "$report")
counted=$(jq -r "$moves | group_by(.moved)[] | \"\\(.[0].moved) \\(length)\"" "$report" | paste -sd, | sed 's/,/, /g')
beyond=$(jq "$moves | map(select(.moved == \"beyond_noise\")) | length" "$report")
uncorrected=$(jq "$moves | map(select(.p != null and .p < 0.05)) | length" "$report")
printf '%s rounds: %s of %s claims differ, %s of %s times beyond noise (uncorrected p < 0.05: %s), %s cells incomplete; %s\n' \
  "$rounds" "$differ" "$claims" "$beyond" "$numbers" "$uncorrected" "$missing" "$counted"
# Here every move is false, so the stated share of false moves is the share of whole tables that may name one.
if [ "$claims" -gt 0 ] && [ "$differ$beyond$missing" = 000 ]; then
  rm -rf "$place"
else
  echo "matrix: $place/matrix" >&2
  exit 1
fi
