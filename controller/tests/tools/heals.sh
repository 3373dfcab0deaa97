#!/usr/bin/env bash
# After a heal no node stays failed: cuts the link of a cluster until both halves have noticed, heals it, and waits until every node
# sees every node as fine, cluster_state is ok everywhere and every replica is linked, a minute at most. The halves stay parted for
# another 0 to 15 s, a little longer in each round, since what waits for the heal waits longer after a longer cut. After a promotion
# the old master is put back. Prints both times of each round, and their extremes per release.
#
#   controller/tests/tools/heals.sh [ROUNDS=20] [RELEASE...]
#
# Without a release redis-7.0.15. LAYOUTS are the topologies ("c b"), KIND is that of the cut (drop, reset, close; close puts the
# relays into stream mode), TESTBED the program (default: target/debug/testbed).
# Exit code: 0 all were well again, 1 one was not; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

rounds=${1:-20}
shift || true
releases=("${@:-redis-7.0.15}")
layouts=${LAYOUTS:-c b}
kind=${KIND:-drop}
testbed=${TESTBED:-target/debug/testbed}
lab=heals-$$
failed=0

finish() { "$testbed" --quiet down -p "$lab" -y >/dev/null 2>&1 || true; }
trap finish EXIT
[ -x "$testbed" ] || {
  echo "skipped: no $testbed (cargo build)" >&2
  exit 4
}

now() { date +%s%N; }
since() { awk "BEGIN { printf \"%.1f\", ($(now) - $1) / 1e9 }"; }
# await SECONDS QUERY: until it holds of what `testbed ps` says; 1 if it does not.
await() {
  local began
  began=$(now)
  until "$testbed" ps -p "$lab" --format json | jq -e "$2" >/dev/null; do
    [ $((($(now) - began) / 1000000000)) -lt "$1" ] || return 1
    sleep 0.1
  done
}
fine='all(.clusters[]; .state == "ok" and .slots_ok == 16384 and .others_disagree == []
  and all(.nodes[]; .health == "fine" and .connected)) and all(.nodes[]; .version)'
linked='all(.nodes[]; .health == "ready")'
# Layout C promotes in dc1, layout B stops in both halves.
noticed_c='any(.clusters[]; .seen_from == "dc1" and .state == "ok" and ([.nodes[] | select(.health == "failed")] | length) == 3)
  and any(.clusters[]; .seen_from == "dc2" and .state == "fail") and all(.clusters[]; .others_disagree == [])'
noticed_b='all(.clusters[]; .state == "fail" and .others_disagree == [])'
in_place='any(.clusters[]; .elsewhere != []) | not'

put_back() {
  local tries
  for tries in 1 2 3 4 5; do
    "$testbed" exec -p "$lab" node-3 "${1%%-*}-cli" cluster failover >/dev/null
    # The server itself gives up after 5 s.
    ! await 8 "($in_place) and ($fine) and ($linked)" || return 0
  done
  echo "node-3 is no master again after $tries orders" >&2
  "$testbed" ps -p "$lab" >&2
  exit 5
}

round() {
  local release=$1 layout=$2 number=$3 longer healed well synchronised
  local noticed=noticed_$layout began
  longer=$(awk "BEGIN { printf \"%.1f\", ($rounds > 1) ? 15 * ($number - 1) / ($rounds - 1) : 0 }")
  began=$(now)
  "$testbed" --quiet link cut dc1-dc2 --kind "$kind" -p "$lab" >/dev/null
  await 60 "${!noticed}" || {
    echo "the halves have not noticed the cut" >&2
    "$testbed" ps -p "$lab" >&2
    exit 5
  }
  noticed=$(since "$began")
  sleep "$longer"
  "$testbed" --quiet link heal dc1-dc2 -p "$lab" >/dev/null
  healed=$(now)
  if await 60 "$fine"; then
    well=$(since "$healed")
    await 60 "$linked" && synchronised=$(since "$healed") || synchronised=never
  else
    well=never synchronised=never
  fi
  printf '%-13s %-6s %5s %10s %10s %10s %12s\n' "$release" "$layout" "$number" "$noticed" "$(awk "BEGIN { print $noticed + $longer }")" "$well" "$synchronised"
  if [ "$synchronised" = never ]; then
    failed=$((failed + 1))
    "$testbed" ps -p "$lab" >&2
    return
  fi
  times+="$well $synchronised"$'\n'
  [ "$layout" != c ] || put_back "$release"
}

printf '%-13s %-6s %5s %10s %10s %10s %12s   (s: after the cut, cut for, after the heal)\n' RELEASE LAYOUT ROUND NOTICED "CUT FOR" FINE "ALL LINKED"
for release in "${releases[@]}"; do
  times=
  for layout in $layouts; do
    "$testbed" --quiet up "topologies/cluster-$layout.yaml" -p "$lab" --release "$release" >/dev/null
    [ "$kind" != close ] || "$testbed" --quiet link mode stream -p "$lab" >/dev/null
    for number in $(seq "$rounds"); do round "$release" "$layout" "$number"; done
    "$testbed" --quiet down -p "$lab" -y >/dev/null
  done
  awk -v release="$release" 'NF == 2 { n++; if (n == 1 || $1 < a) a = $1; if ($1 > b) b = $1; if (n == 1 || $2 < c) c = $2; if ($2 > d) d = $2 }
    END { printf "%s: %d heals, fine after %.1f to %.1f s, all linked after %.1f to %.1f s\n", release, n, a, b, c, d }' <<<"$times"
done

[ "$failed" = 0 ] || {
  echo "$failed heals left a node behind" >&2
  exit 1
}
