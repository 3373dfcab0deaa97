#!/usr/bin/env bash
# Labs side by side until the pool of addresses ends: as many as it has blocks are raised at once, each then carries a write from its
# primary to the far replica, one more is refused with an error that names the pool and leaves nothing, and all go.
#
#   controller/tests/tools/many-labs.sh [LABS=10]
#
# The pool is cut to so many blocks of 1024 addresses, from POOL on (198.19.192.0; they must be free). TESTBED is the program
# (default: target/debug/testbed).
# Exit code: 0 all of it came true, 1 something did not, 4 it cannot run.
set -euo pipefail
cd "$(dirname "$0")/../../.."

labs=${1:-10}
testbed=${TESTBED:-target/debug/testbed}
first=${POOL:-198.19.192.0}
files=$(mktemp -d)
name=many-$$
failed=0
[ -x "$testbed" ] || { echo "skipped: no $testbed (cargo build)" >&2; exit 4; }

finish() {
  for ((lab = 1; lab <= labs + 1; lab++)); do
    "$testbed" --quiet down -p "$name-$lab" >/dev/null 2>&1 || true
  done
  rm -rf "$files"
}
trap finish EXIT
ms() { echo $(($(date +%s%N) / 1000000)); }
wrong() { echo "$*" >&2; failed=1; }

IFS=. read -r a b c _ <<<"$first"
pool=
for ((block = 0; block < labs; block++)); do pool+=${pool:+,}$a.$b.$((c + 4 * block)).0/22; done
export TESTBED_POOL=$pool

began=$(ms)
pids=()
for ((lab = 1; lab <= labs; lab++)); do
  "$testbed" --quiet up topologies/two-dc.yaml -p "$name-$lab" --wait-timeout 300s >/dev/null 2>"$files/up-$lab" &
  pids+=($!)
done
for ((lab = 1; lab <= labs; lab++)); do
  wait "${pids[lab - 1]}" || wrong "lab $lab did not come up: $(cat "$files/up-$lab")"
done
echo "$labs labs up after $((($(ms) - began) / 1000)) s"
free -m 2>/dev/null | awk '/^Mem/ { print "memory: " $3 " of " $2 " MiB in use" }'

for ((lab = 1; lab <= labs; lab++)); do
  "$testbed" exec -p "$name-$lab" redis-primary redis-cli set key "$lab" >/dev/null || wrong "lab $lab takes no write"
  seen=$("$testbed" exec -p "$name-$lab" redis-primary redis-cli wait 2 5000 || true)
  value=$("$testbed" exec -p "$name-$lab" redis-far redis-cli get key || true)
  [ "$value" = "$lab" ] || wrong "lab $lab: the far replica has '$value', WAIT said $seen"
done
echo "a write crossed the link of each"

code=0
"$testbed" --quiet up topologies/two-dc.yaml -p "$name-$((labs + 1))" >/dev/null 2>"$files/more" || code=$?
cat "$files/more"
[ $code = 4 ] || wrong "one more ended with $code"
grep -q "has $labs blocks" "$files/more" || wrong "its error does not name the limit"
grep -q "$name-1\\b" "$files/more" || wrong "its error does not name the labs"
left=$(docker ps -aq --filter "label=testbed.lab=$name-$((labs + 1))"; docker volume ls -q --filter "label=testbed.lab=$name-$((labs + 1))")
[ -z "$left" ] || wrong "it left $left"

began=$(ms)
for ((lab = 1; lab <= labs; lab++)); do
  "$testbed" --quiet down -p "$name-$lab" 2>"$files/down-$lab" & pids[lab - 1]=$!
done
for ((lab = 1; lab <= labs; lab++)); do
  wait "${pids[lab - 1]}" || wrong "lab $lab did not go: $(cat "$files/down-$lab")"
  for left in "ps -aq" "network ls -q" "volume ls -q"; do
    [ -z "$(docker $left --filter "label=testbed.lab=$name-$lab")" ] || wrong "lab $lab left something: docker $left"
  done
done
echo "$labs labs gone after $((($(ms) - began) / 1000)) s"
exit $failed
