#!/usr/bin/env bash
# kill -9 of testbed at random moments of up, run (a short block) and down. A killed run, and an up that had not ended, leave nothing
# after 10 s of waiting (that of up in every other round: the rest, and down, are followed by `down` at once); in every fourth run its
# reaper is killed too, and the next command has to remove what is left. Decoys of similar names and labels must stay as they are: a
# network, a running container, a volume. Half a minute after the last kill it is looked again for what came late.
#
#   controller/tests/tools/kills.sh [KILLS=60] [SEED=1]
#
# BLOCK is what is run (3), TESTBED the program (default: target/debug/testbed), IMAGE what the decoy runs.
# Exit code: 0 nothing was left and no decoy touched, 1 else; 4 if it cannot run.
set -euo pipefail
cd "$(dirname "$0")/../../.."

kills=${1:-60}
RANDOM=${2:-1}
testbed=${TESTBED:-target/debug/testbed}
block=${BLOCK:-3}
image=${IMAGE:-testbed/redis:7.0.15}
lab=kills-$$
decoy=tb-$lab
files=$(mktemp -d)
failed=0
[ -x "$testbed" ] || { echo "skipped: no $testbed (cargo build)" >&2; exit 4; }
docker image inspect "$image" >/dev/null 2>&1 || { echo "skipped: no image $image (testbed images build)" >&2; exit 4; }

finish() {
  "$testbed" --quiet down -p "$lab" >/dev/null 2>&1 || true
  docker rm -f "$decoy-redis-primary-decoy" >/dev/null 2>&1 || true
  docker network rm "$decoy.dc1-decoy" >/dev/null 2>&1 || true
  docker volume rm "$decoy-redis-primary-state-decoy" >/dev/null 2>&1 || true
  rm -rf "$files"
}
trap finish EXIT

ms() { echo $(($(date +%s%N) / 1000000)); }
# Milliseconds as seconds.
s() { printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100)); }
# A moment up to $1 ms: two draws, since one has 15 bits, and no subshell, which would draw numbers of its own.
upto() { at=$(((RANDOM * 32768 + RANDOM) % ($1 + 1))); }
pause() { sleep "$(($1 / 1000)).$(printf '%03d' $(($1 % 1000)))"; }
# by LABEL=VALUE: everything that carries it, one line each.
by() {
  docker ps -aq --filter "label=$1"
  docker network ls -q --filter "label=$1"
  docker volume ls -q --filter "label=$1"
}
# of PID: everything of that process of ours.
of() {
  local line='{{.Name}} {{.Label "testbed.controller"}}'
  {
    docker ps -a --filter label=testbed.owner=testbed --format "${line/Name/Names}"
    docker network ls --filter label=testbed.owner=testbed --format "$line"
    docker volume ls --filter label=testbed.owner=testbed --format "$line"
  } | grep -F "\"pid\":$1," | cut -d' ' -f1 || true
}
# The reaper of a process, by its number.
reaper_of() {
  local each
  for each in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
    ! tr '\0' ' ' <"/proc/$each/cmdline" 2>/dev/null | grep -q ' reap --host ' || echo "$each"
  done
}
wrong() {
  echo "round $round ($kind, killed after $(s "$at") s): $*" >&2
  failed=1
}

docker network create --label testbed.owner=somebody --label "testbed.lab=$lab" "$decoy.dc1-decoy" >/dev/null
docker volume create --label testbed.owner=somebody --label "testbed.lab=$lab" "$decoy-redis-primary-state-decoy" >/dev/null
docker run -d --name "$decoy-redis-primary-decoy" --network "$decoy.dc1-decoy" --label testbed.owner=somebody \
  --label "testbed.lab=$lab" -v "$decoy-redis-primary-state-decoy:/decoy" --entrypoint redis-server "$image" --save '' >/dev/null
decoys() {
  docker inspect -f '{{.Id}} {{.State.Running}} {{.State.StartedAt}} {{len .NetworkSettings.Networks}}' "$decoy-redis-primary-decoy"
  docker network inspect -f '{{.Id}} {{len .Containers}}' "$decoy.dc1-decoy"
  docker volume inspect -f '{{.Name}} {{.CreatedAt}}' "$decoy-redis-primary-state-decoy"
}
before=$(decoys)

up() { "$testbed" --quiet up topologies/two-dc.yaml -p "$lab" >/dev/null 2>"$files/up"; }
began=$(ms)
up || { cat "$files/up" >&2; exit 4; }
took_up=$(($(ms) - began))
began=$(ms)
"$testbed" --quiet down -p "$lab"
took_down=$(($(ms) - began))
echo "without a kill: up $(s "$took_up") s, down $(s "$took_down") s"

# nothing PID: how long until nothing of it is left, 10 s at most.
nothing() {
  local began left
  began=$(ms)
  while left=$(of "$1"); [ -n "$left" ]; do
    if [ $(($(ms) - began)) -gt 10000 ]; then
      wrong "after 10 s still there: $(tr '\n' ' ' <<<"$left")"
      return
    fi
    sleep 0.1
  done
  began=$(($(ms) - began))
  [ "$began" -le "$longest" ] || longest=$began
}
down_again() {
  local left
  "$testbed" --quiet down -p "$lab" 2>"$files/down" || wrong "down: $(cat "$files/down")"
  left=$(by "testbed.lab=$lab" | wc -l)
  # The decoys carry that label too.
  [ "$left" = 3 ] || wrong "down left $((left - 3)) objects"
}

declare -A count=() early=() there=()
longest=0
killed=()
for ((round = 1; round <= kills; round++)); do
  case $((round % 3)) in 0) kind=up ;; 1) kind=run ;; 2) kind=down ;; esac
  case $kind in
    up) "$testbed" --quiet up topologies/two-dc.yaml -p "$lab" >/dev/null 2>&1 & upto $((took_up * 11 / 10)) ;;
    run) "$testbed" --quiet run --only "$block" --out "$files/run-$round" >/dev/null 2>&1 & upto $((took_up * 4)) ;;
    down)
      up || { at=0; wrong "up: $(cat "$files/up")"; down_again; continue; }
      "$testbed" --quiet down -p "$lab" >/dev/null 2>&1 & upto "$took_down"
      ;;
  esac
  pid=$!
  pause "$at"
  reapers=
  [ $((round % 12)) != 1 ] || reapers=$(reaper_of "$pid")
  alive=1
  ! grep -qs ') Z ' "/proc/$pid/stat" || alive=0
  kill -9 $reapers "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
  count[$kind]=$((${count[$kind]:-0} + 1))
  [ $alive = 1 ] || early[$kind]=$((${early[$kind]:-0} + 1))
  [ -z "$(of "$pid")" ] || there[$kind]=$((${there[$kind]:-0} + 1))
  killed+=("$pid")
  if [ -n "$reapers" ]; then
    # Any command will do, also one that means another lab.
    "$testbed" --quiet down -p "$lab-none" 2>"$files/down" || wrong "the next command: $(cat "$files/down")"
    [ -z "$(of "$pid")" ] || wrong "the next command left $(of "$pid" | tr '\n' ' ')"
  elif [ $kind = run ] || { [ $kind = up ] && [ $alive = 1 ] && [ $((round % 2)) = 0 ]; }; then
    nothing "$pid"
  fi
  [ $kind = run ] || down_again
  [ "$(decoys)" = "$before" ] || wrong "a decoy was touched: $(decoys)"
done
round=end kind=late at=0
sleep 32
for pid in "${killed[@]}"; do
  [ -z "$(of "$pid")" ] || wrong "came late, of process $pid: $(of "$pid" | tr '\n' ' ')"
done
[ "$(decoys)" = "$before" ] || wrong "a decoy was touched: $(decoys)"
for kind in up run down; do
  echo "$kind: ${count[$kind]:-0} rounds, ${early[$kind]:-0} had ended before the kill, ${there[$kind]:-0} left objects at the kill"
done
echo "longest from a kill to nothing left, without a command: $(s $longest) s"
[ $failed = 0 ] && echo "nothing was left, no decoy was touched"
exit $failed
