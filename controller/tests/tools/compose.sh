#!/usr/bin/env bash
# Files of compose/ started by docker compose alone, without testbed: every node answers, a cluster is formed, Sentinels agree, a key
# that is written on one side is read on the other, and a round trip over the link takes twice its delay. Prints a line per file.
#
#   controller/tests/tools/compose.sh [NAME...]      (default: every file of compose/)
#
# Each lab is a copy with addresses of its own (`export compose --subnet`, BLOCK, default 198.19.252.0/22, below which each file takes a
# /24), so that it runs beside others; FILES=as-they-are takes the committed files and their addresses. TESTBED is the program
# (default: target/debug/testbed), COMPOSE the command (default: `docker compose`, else docker-compose).
# Exit code: 0 all are well, 1 one is not, 4 skipped: something is missing. What was made is removed, whatever happens.
set -euo pipefail
cd "$(dirname "$0")/../../.."

testbed=${TESTBED:-target/debug/testbed}
files=${FILES:-copies}
block=${BLOCK:-198.19.252.0/22}
compose=${COMPOSE:-$(docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)}
names=("$@")
[ ${#names[@]} -gt 0 ] || mapfile -t names < <(basename -s .yaml -a compose/*.yaml)
work=$(mktemp -d)
project= file= failed=0

skip() { echo "skipped: $*" >&2; exit 4; }
[ -x "$testbed" ] || skip "no $testbed (cargo build)"
command -v jq >/dev/null || skip "no jq"
$compose version >/dev/null 2>&1 || skip "neither docker compose nor docker-compose"

run() { $compose -p "$project" -f "$file" "$@"; }
remove() { [ -z "$project" ] || run down -v --remove-orphans >"$work/down" 2>&1 || { cat "$work/down" >&2; failed=1; }; project=; }
finish() { remove; rm -rf "$work"; }
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

container() { run ps -q "$1"; }
within() { docker exec "$(container "$1")" "${@:2}"; }
# await SECONDS COMMAND...: until it succeeds.
await() {
  local until=$((SECONDS + $1))
  until "${@:2}" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || { echo "not within $1 s: ${*:2}" >&2; return 1; }
    sleep 0.2
  done
}
says() { [[ $(within "$1" "${@:3}") == *"$2"* ]]; }
ended() { [ "$(docker inspect -f '{{.State.Status}} {{.State.ExitCode}}' "$(run ps -q "$1")")" = "exited 0" ]; }

# round_trip NODE OTHER: median of a PING from one to the other, ms, by the tool that came with the server.
round_trip() {
  within "$1" redis-benchmark -h "$2" -c 1 -n 40 -t ping_mbulk -q | tr '\r' '\n' | sed -n 's/.*p50=\([0-9.]*\).*/\1/p' | tail -1
}

check() {
  local plan=$1 node primary replica far delay measured began=$SECONDS
  for node in $(jq -r '.plan.nodes[] | select(.engine == "postgres") | .name' <<<"$plan"); do
    await 60 within "$node" pg_isready -U postgres
  done
  for node in $(jq -r '.plan.nodes[] | select(.cluster) | .cluster.name' <<<"$plan" | sort -u); do
    await 120 ended "form.$node"
  done
  for node in $(jq -r '.plan.nodes[] | select(.role | type == "object" and has("sentinel_of")) | .name' <<<"$plan"); do
    primary=$(jq -r --arg n "$node" '.plan.nodes[] | select(.name == $n).role.sentinel_of' <<<"$plan")
    others=$(jq --arg p "$primary" '[.plan.nodes[] | select(.role | type == "object") | select(.role.sentinel_of? == $p)] | length - 1' <<<"$plan")
    await 60 says "$node" "sentinels=$((others + 1))" redis-cli -p 26379 info sentinel
  done
  # A primary with a replica in another datacenter: what goes between them crosses the link.
  read -r primary replica delay < <(jq -r '.plan as $p | [$p.nodes[] | select(.role | type == "object" and has("replica_of")) as $r
    | $p.nodes[] | select(.name == $r.role.replica_of and .datacenter != $r.datacenter) as $m
    | ([$p.links[] | select((.from == $m.datacenter and .to == $r.datacenter) or (.from == $r.datacenter and .to == $m.datacenter)).conditions.delay_ns] | add) as $d
    | "\($m.name) \($r.name) \($d / 1000000)"][0]' <<<"$plan")
  await 60 says "$replica" master_link_status:up redis-cli info replication
  local key=k
  # A key of the first slot range of that master, in a cluster.
  if jq -e --arg n "$primary" '.plan.nodes[] | select(.name == $n).cluster' <<<"$plan" >/dev/null; then
    for key in $(seq 1 200); do says "$primary" OK redis-cli set "$key" arrived && break; done
    await 10 reads_replica "$replica" "$key"
  else
    within "$primary" redis-cli set "$key" arrived >/dev/null
    await 10 says "$replica" arrived redis-cli get "$key"
  fi
  measured=$(round_trip "$primary" "$replica")
  printf '%-12s %2s nodes, %s to %s: written and read, round trip %s ms of %s, up and checked in %s s\n' "$2" \
    "$(jq '.plan.nodes | length' <<<"$plan")" "$primary" "$replica" "$measured" "$delay" "$((SECONDS - began))"
  awk "BEGIN { exit !($measured >= $delay * 0.95 && $measured <= $delay * 1.3 + 10) }" || {
    echo "$2: a round trip of $measured ms over a link of $delay ms" >&2
    return 1
  }
}
# A replica of a cluster answers a connection that said READONLY.
reads_replica() { [[ $(printf 'readonly\nget %s\n' "$2" | docker exec -i "$(container "$1")" redis-cli) == *arrived* ]]; }

number=0
for name in "${names[@]}"; do
  [ -e "compose/$name.yaml" ] || skip "no compose/$name.yaml"
  "$testbed" -q export images "topologies/$name.yaml" >/dev/null
  file=compose/$name.yaml
  if [ "$files" != as-they-are ]; then
    file=$work/$name.yaml
    subnet=$(awk -v block="$block" -v n="$number" 'BEGIN { split(block, part, /[.\/]/); print part[1] "." part[2] "." part[3] + n % 4 "." 0 "/24" }')
    "$testbed" -q export compose "topologies/$name.yaml" --subnet "$subnet" -o "$file"
  fi
  number=$((number + 1))
  project=compose-$name-$$
  run up -d >"$work/up" 2>&1 || { cat "$work/up" >&2; failed=1; remove; continue; }
  check "$("$testbed" plan "topologies/$name.yaml" --format json)" "$name" || {
    failed=1
    run logs --tail=20 >&2 || true
  }
  remove
done
exit "$failed"
