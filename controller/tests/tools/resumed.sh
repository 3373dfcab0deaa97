#!/usr/bin/env bash
# A matrix that is killed and resumed says what an undisturbed one says: blocks 1, 2 and 3 on two releases, once from end to end, and
# once killed with SIGKILL at random moments and gone on with by --resume each time, until it is complete. Checks that both have the same
# verdicts, that no cell that was complete was measured again (its history.jsonl stays as it is), that none is lost, and that no
# container or network of its runs is left. Prints a line per kill, and figures.
#
#   controller/tests/tools/resumed.sh [KILLS=10] [SEED=1]
#
# RELEASES ("redis-7.0.15 valkey-9.1"), ONLY (1,2,3), REPEAT (so many that the kills fit), SPAN (longest time before a kill, s: 40),
# TESTBED the program (default: target/debug/testbed). Exit code: 0 all held, 1 one did not; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

kills=${1:-10}
seed=${2:-1}
only=${ONLY:-1,2,3}
repeat=${REPEAT:-$((kills / 5 + 1))}
span=${SPAN:-40}
testbed=${TESTBED:-target/debug/testbed}
[ -x "$testbed" ] || {
  echo "skipped: no $testbed (cargo build)" >&2
  exit 4
}
options=(--only "$only" --repeat "$repeat" --seed "$seed")
for release in ${RELEASES:-redis-7.0.15 valkey-9.1}; do options+=(--release "$release"); done
place=$(mktemp -d)
RANDOM=$seed
pid=
declare -A runs=()
failed=0

# The runs of all cells that there are, by the label of their objects.
note_runs() {
  local file run
  for file in "$place"/*/cell-*/history.jsonl; do
    [ -s "$file" ] || continue
    run=$(head -n 1 "$file" | jq -r '.what.run_started.run // empty' 2>/dev/null) || true
    [ -z "$run" ] || runs[$run]=1
  done
}
left() {
  local run
  for run in "${!runs[@]}"; do
    docker ps -aq --filter "label=testbed.run=$run"
    docker network ls -q --filter "label=testbed.run=$run"
  done
}
finish() {
  [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
  note_runs
  local run
  for run in "${!runs[@]}"; do
    docker ps -aq --filter "label=testbed.run=$run" | xargs -r docker rm -f >/dev/null
    docker network ls -q --filter "label=testbed.run=$run" | xargs -r docker network rm >/dev/null
  done
}
trap finish EXIT

complete() { jq -r '.cells[] | select(.state == "complete") | .directory' "$place/killed/matrix.json"; }
cells() { jq -r '.cells | length' "$1/matrix.json"; }
hashes() {
  local cell
  complete | while read -r cell; do (cd "$place/killed" && sha256sum "$cell/history.jsonl"); done
}
# Whether the histories that were complete at the last kill are as they were.
unchanged() { [ ! -s "$place/hashes" ] || (cd "$place/killed" && sha256sum --quiet -c "$place/hashes"); }
verdicts() { jq -Sc '[.claims[] | {block, claim, standing: [.tried[].standing]}]' "$1/report.json"; }
# That a claim diverged (10) or is inconclusive (11) is a result, not a failure of the matrix.
judged() {
  case $1 in
    0 | 10 | 11) ;;
    *)
      cat "$place/out" "$place/steps" >&2
      exit "$1"
      ;;
  esac
}
ran() {
  local code=0
  "$@" >"$place/out" 2>"$place/steps" || code=$?
  judged "$code"
}

: >"$place/hashes"
changed=0 killed=0 number=0
first=("${options[@]}" --out "$place/killed")
while [ "$killed" -lt "$kills" ]; do
  number=$((number + 1))
  after=$((1 + RANDOM % span)).$((RANDOM % 10))
  "$testbed" --quiet matrix "${first[@]}" >"$place/out" 2>"$place/steps" &
  pid=$!
  sleep "$after"
  kill -KILL "$pid" 2>/dev/null || true
  code=0
  wait "$pid" 2>/dev/null || code=$?
  pid=
  if [ "$code" != 137 ]; then
    judged "$code"
    echo "complete after $killed kills: a larger REPEAT or a smaller SPAN makes more fit"
    break
  fi
  killed=$((killed + 1))
  [ ! -e "$place/killed/matrix.json" ] || first=(--resume "$place/killed")
  [ -e "$place/killed/matrix.json" ] || { rm -rf "$place/killed"; continue; }
  note_runs
  unchanged || changed=$((changed + 1))
  hashes >"$place/hashes"
  printf 'kill %2s after %5s s: %s of %s cells complete, %s objects left for the next to remove\n' "$killed" "$after" \
    "$(wc -l <"$place/hashes")" "$(cells "$place/killed")" "$(left | wc -l)"
done
ran "$testbed" --quiet matrix "${first[@]}"
note_runs
unchanged || changed=$((changed + 1))
lost=$(($(cells "$place/killed") - $(complete | wc -l)))
ran "$testbed" --quiet matrix "${options[@]}" --out "$place/whole"
note_runs
left=$(left | wc -l)
verdicts "$place/whole" >"$place/whole.txt"
verdicts "$place/killed" >"$place/killed.txt"
claims=$(jq length "$place/whole.txt")
[ "$claims" -gt 0 ] || {
  echo "the report names no claim" >&2
  exit 5
}
differ=$(jq -n --slurpfile a "$place/whole.txt" --slurpfile b "$place/killed.txt" '[$a[0], $b[0]] | transpose | map(select(.[0] != .[1])) | length')
printf '%s kills (seed %s): %s cells, %s lost, %s times a complete one changed, %s of %s claims differ from the undisturbed matrix, %s objects left of %s runs\n' \
  "$killed" "$seed" "$(cells "$place/killed")" "$lost" "$changed" "$differ" "$claims" "$left" "${#runs[@]}"
[ "$killed" = "$kills" ] || failed=1
[ "$lost $changed $differ $left" = "0 0 0 0" ] && [ "$failed" = 0 ] && rm -rf "$place" || {
  echo "matrices: $place" >&2
  exit 1
}
