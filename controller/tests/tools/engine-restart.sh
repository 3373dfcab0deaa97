#!/usr/bin/env bash
# An engine that is restarted in the middle of a run, that has no room left on its disk, and whose image vanishes between plan and
# creation: exit code 5 with a reason, and nothing left after `down`. The engine is one of this script's own, in a network namespace,
# a mount namespace and a folder of its own; the machine's engine is only asked for the server image.
#
#   controller/tests/tools/engine-restart.sh
#
# Needs root, dockerd, unshare, nsenter, ip and a Docker engine that has redis-7.0.15. TESTBED is the program (default: target/debug/testbed),
# DRIVER the storage driver of the engine (default: vfs). Exit code: 0 all as it should be, 1 something was not, 4 skipped.
set -euo pipefail
cd "$(dirname "$0")/../../.."

testbed=$(realpath "${TESTBED:-target/debug/testbed}")
driver=${DRIVER:-vfs}
for tool in dockerd unshare nsenter ip docker; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool" >&2; exit 4; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: only root can start an engine of its own" >&2; exit 4; }
[ -x "$testbed" ] || { echo "skipped: no $testbed (cargo build)" >&2; exit 4; }

work=$(mktemp -d /tmp/testbed-engine.XXXXXX)
name=restart-$$
failed=0
engine=
namespace=testbed-$$
export DOCKER_CONFIG=$work/config
own=unix://$work/docker.sock

wrong() { echo "WRONG: $*"; failed=1; }
start_engine() {
  # A mount namespace of its own: what the engine mounts goes with it.
  # nsenter, since `ip netns exec` mounts a /sys without the cgroups.
  nsenter --net="/run/netns/$namespace" unshare --mount --propagation private dockerd --config-file "$work/none.json" \
    --host "$own" --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
    --bridge none --storage-driver "$driver" >>"$work/log" 2>&1 &
  for _ in $(seq 300); do
    docker -H "$own" version >/dev/null 2>&1 && { engine=$(cat "$work/pid"); return; }
    sleep 0.1
  done
  tail -5 "$work/log" >&2
  echo "skipped: an engine of one's own does not start here" >&2
  exit 4
}
stop_engine() {
  [ -n "$engine" ] || return 0
  kill "$engine" 2>/dev/null || true
  for _ in $(seq 300); do
    [ -d "/proc/$engine" ] || break
    sleep 0.1
  done
  [ ! -d "/proc/$engine" ] || kill -9 "$engine" || true
  engine=
}
finish() {
  [ -z "$engine" ] || docker -H "$own" ps -aq 2>/dev/null | xargs -r docker -H "$own" rm -f >/dev/null 2>&1 || true
  stop_engine
  ip netns delete "$namespace" 2>/dev/null || true
  ! mountpoint -q "$work/data" || umount "$work/data"
  rm -rf "$work" || true
  [ ! -e "$work" ] || echo "left behind: $work" >&2
}
trap finish EXIT
left() {
  docker -H "$own" ps -aq --filter label=testbed.owner=testbed
  docker -H "$own" network ls -q --filter label=testbed.owner=testbed
  docker -H "$own" volume ls -q --filter label=testbed.owner=testbed
}
# ends CODE WORDS FILE: what a command ended with and said.
ends() {
  [ "$code" = "$1" ] || wrong "exit code $code, not $1"
  grep -qE "$2" "$3" || wrong "it does not say: $2"
  grep -q 'hint:' "$3" || wrong "no next step"
  grep -E 'error:|hint:' "$3" | cut -c1-300 || true
}

mkdir -p "$work/config" "$work/data"
echo '{}' >"$work/none.json"
cat >"$work/set.yaml" <<EOF
version: 1
name: $name
datacenters:
  dc1:
  dc2:
links:
  dc1-dc2: { delay: 5ms }
nodes:
  one: { datacenter: dc1, engine: redis }
  far: { datacenter: dc2, replica-of: one, engine: redis }
EOF
ip netns add "$namespace"
ip -n "$namespace" link set lo up
start_engine
image=$(docker -H unix:///var/run/docker.sock images --format '{{.Repository}}:{{.Tag}}' | grep -m1 'redis.*7\.0\.15') || {
  echo "skipped: the machine's engine has no image of redis-7.0.15" >&2
  exit 4
}
docker -H unix:///var/run/docker.sock save "$image" | docker -H "$own" load >/dev/null

echo "== restarted in the middle of a run"
began=$(date +%s)
"$testbed" run -H "$own" -f "$work/set.yaml" --only 9 --out "$work/run" >"$work/out" 2>"$work/err" &
run=$!
for _ in $(seq 1200); do
  grep -q peers_seen "$work/run/history.jsonl" 2>/dev/null && break
  [ -d "/proc/$run" ] || break
  sleep 0.05
done
sleep 1
stop_engine
stopped=$(date +%s)
code=0
wait "$run" || code=$?
echo "exit code $code, $(($(date +%s) - stopped)) s after the engine was gone, $(($(date +%s) - began)) s in all"
ends 5 'gave no answer|no such socket|it ended' "$work/err"
start_engine
"$testbed" ps -H "$own" >/dev/null 2>&1 || true
for lab in $(docker -H "$own" network ls --filter label=testbed.owner=testbed --format '{{.Label "testbed.lab"}}' | sort -u); do
  "$testbed" down -H "$own" -p "$lab" || wrong "down ends with $?"
done
[ -z "$(left)" ] || wrong "left after down: $(left)"

echo "== an image that vanishes between plan and creation"
docker -H "$own" events --filter type=network --filter event=create --format x 2>/dev/null | {
  # The networks are made, the containers are not yet.
  read -r _
  docker -H "$own" rmi -f "$image" >/dev/null 2>&1
  cat >/dev/null
} &
watcher=$!
sleep 1
code=0
"$testbed" up -H "$own" "$work/set.yaml" >"$work/out" 2>"$work/err" || code=$?
kill "$watcher" 2>/dev/null || true
if [ "$code" = 0 ]; then
  echo "skipped: the containers were made before the image was gone"
  "$testbed" down -q -H "$own" -p "$name"
else
  echo "exit code $code"
  ends 5 '[Nn]o such image' "$work/err"
fi
[ -z "$(left)" ] || wrong "left: $(left)"

echo "== a disk that is full"
docker -H "$own" images -q | sort -u | xargs -r docker -H "$own" rmi -f >/dev/null 2>&1 || true
stop_engine
rm -rf "$work/data"
mkdir "$work/data"
mount -t tmpfs -o size=400m testbed-engine "$work/data"
start_engine
docker -H unix:///var/run/docker.sock save "$image" | docker -H "$own" load >/dev/null || wrong "the image does not fit"
fallocate -l "$(($(df --output=avail -B1 "$work/data" | tail -1) - 200000))" "$work/data/full"
code=0
"$testbed" up -H "$own" "$work/set.yaml" >"$work/out" 2>"$work/err" || code=$?
echo "exit code $code"
ends 5 'no space left on device' "$work/err"
rm -f "$work/data/full"
"$testbed" down -q -H "$own" -p "$name" || wrong "down ends with $?"
[ -z "$(left)" ] || wrong "left: $(left)"

exit "$failed"
