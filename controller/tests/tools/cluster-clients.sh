#!/usr/bin/env bash
# Do the clients that people use work on a cluster whose link is cut? Raises topologies/cluster-c.yaml on each release, and in both
# datacenters, towards their own half, before, during and after two cuts (drop, then reset): `--cluster check` and `-c` of the
# release's own redis-cli (valkey-cli), and redis-py's RedisCluster from Debian, one client that lives through all of it and a new
# one each time. Unmodified, in containers that share the network of the datacenter's probe. Prints a table, and removes what it made.
#
# Of `--cluster check` nothing is expected while packets vanish: it has no limit of its own and asks every node, one after the other,
# so it waits as long as the kernel tries to connect, two minutes for each node that is not there (Redis 7.0.15 in the home half
# said "All 16384 slots covered" after 405 s). Where connections are refused it says at once what is missing.
#
#   controller/tests/tools/cluster-clients.sh [RELEASE...]
#
# Without a release redis-7.0.15. TESTBED is the program (default: target/debug/testbed).
# Exit code: 0 all as expected, 1 not so, 4 something is missing here; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

releases=("${@:-redis-7.0.15}")
testbed=${TESTBED:-target/debug/testbed}
own=$$
lab=cluster-clients-$own
python=testbed-clients:$own
dir=$(mktemp -d)
unexpected=0

finish() {
  docker ps -aq --filter "label=testbed-clients=$own" | xargs -r docker rm -f >/dev/null || true
  "$testbed" --quiet down -p "$lab" -y >/dev/null 2>&1 || true
  docker image rm -f "$python" >/dev/null 2>&1 || true
  rm -rf "$dir"
}

missing() {
  echo "skipped: $1" >&2
  exit 4
}

for tool in docker jq apt-get dpkg-deb; do
  command -v "$tool" >/dev/null || missing "no $tool"
done
[ -x "$testbed" ] || missing "no $testbed (cargo build)"
trap finish EXIT

# An image of Python and redis-py, out of packages of this machine's own Debian. No script of a package is run.
build_image() {
  local root=$dir/root name
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$dir"/archives/partial
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
  : >"$dir/status"
  apt-get -qq -y --no-install-recommends --download-only -o Dir::State::status="$dir/status" -o Dir::Cache::archives="$dir/archives" \
    -o Debug::NoLocking=true -o APT::Sandbox::User=root install python3-redis >"$dir/apt" 2>&1 || {
    cat "$dir/apt" >&2
    missing "python3-redis cannot be downloaded (apt-get update)"
  }
  for name in "$dir"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$name" | tar -x -C "$root" --keep-directory-symlink
  done
  cp controller/tests/tools/cluster-client.py "$root/client.py"
  tar -c -C "$root" . | docker import - "$python" >/dev/null
  rm -rf "$root" "$dir/archives"
}

# run_in DATACENTER NAME IMAGE PROGRAM: the words before a program's arguments that run it there, as a client that is no node.
run_in() {
  run=(docker run --rm -i --name "$lab-$2-$1" --network "container:tb-$lab-probe.$1" --label "testbed-clients=$own"
    --read-only --cap-drop ALL --user 65534:65534 --entrypoint "$4" "$3")
}
# cli DATACENTER ARGUMENTS...: the release's own, for 20 s at most.
cli() {
  local code=0 run
  run_in "$1" cli "$server" "$cli"
  timeout -k 1 20 "${run[@]}" "${@:2}" 2>&1 || code=$?
  # A program that is the first of its container does not hear that it should end.
  docker rm -f "$lab-cli-$1" >/dev/null 2>&1 || true
  return "$code"
}

# await WHAT SECONDS QUERY: until it holds of what `testbed ps` says.
await() {
  local since=$SECONDS
  until "$testbed" ps -p "$lab" --format json | jq -e "$3" >/dev/null; do
    [ $((SECONDS - since)) -lt "$2" ] || {
      echo "not within $2 s: $1" >&2
      "$testbed" ps -p "$lab" >&2
      exit 1
    }
    sleep 0.2
  done
}
well='all(.nodes[]; .health == "ready") and all(.clusters[]; .state == "ok" and .slots_ok == 16384 and .others_disagree == []
  and all(.nodes[]; .health == "fine" and .connected))'
parted='(.clusters[] | select(.seen_from == "dc1") | .state == "ok" and .slots_ok == 16384 and .others_disagree == []
  and ([.nodes[] | select(.health == "failed")] | length == 3))
  and (.clusters[] | select(.seen_from == "dc2") | .state == "fail" and .others_disagree == [])'

# row CLIENT EXPECTED SAID: a line of the table; EXPECTED is a pattern of what is said.
row() {
  local verdict="as expected"
  [[ $3 =~ $2 ]] || {
    verdict="NOT AS EXPECTED"
    unexpected=$((unexpected + 1))
  }
  printf '%-13s %-7s %-4s %-16s %-16s %s\n' "$release" "$phase" "$dc" "$1" "$verdict" "$3"
}

# check EXPECTED: of the first node of this half.
check() {
  local began=$SECONDS code=0 said
  cli "$dc" --cluster check "${nodes[0]}" </dev/null >"$dir/check" 2>&1 || code=$?
  said=$({ grep -aE '^\[(OK|ERR|WARNING)\]|^\*\*\*|Could not' "$dir/check" || true; } | tr '\n' '|' | sed 's/|$//; s/|/; /g')
  case $code in
    124 | 137) said="nothing within 20 s" ;;
    *) said="exit code $code: ${said:-nothing} ($((SECONDS - began)) s)" ;;
  esac
  row "--cluster check" "$1" "$said"
}

# redirected EXPECTED: SET and GET for every hash tag, by a client that begins at each node of this half and follows redirections.
redirected() {
  local node tag value=$phase.$dc fine=0 asked=0
  : >"$dir/errors"
  for node in "${nodes[@]}"; do
    for tag in "${tags[@]}"; do printf 'SET {%s}:%s %s\nGET {%s}:%s\n' "$tag" "$dc" "$value.$node" "$tag" "$dc"; done >"$dir/commands"
    cli "$dc" -c -h "${node%:*}" -p "${node#*:}" <"$dir/commands" >"$dir/replies" 2>&1 || echo "exit code $?" >>"$dir/errors"
    asked=$((asked + ${#tags[@]}))
    fine=$((fine + $(grep -cxF "$value.$node" "$dir/replies" || true)))
    { grep -vxF -e OK -e "$value.$node" -e '' "$dir/replies" || true; } | sed '/^-> Redirected/d' >>"$dir/errors"
  done
  row "-c" "$1" "$fine/$asked read as written$(sort "$dir/errors" | uniq -c | sed 's/^ *\([0-9]*\) /, \1 x /' | tr -d '\n')"
}

# library EXPECTED: what the client in this datacenter said of the phase.
library() {
  local seen which fine seconds errors
  while IFS=$'\t' read -r -u "${from[$dc]}" seen which fine seconds errors; do
    [ "$seen" != done ] || return 0
    row "redis-py, $which" "$1" "$fine read as written${errors:+, $errors} ($seconds s)"
  done
  echo "the client in $dc ended: $(tail -1 "$dir/$dc.err")" >&2
  exit 1
}

# A phase, in both datacenters: what is expected of each client.
phase() {
  phase=$1
  for dc in dc1 dc2; do echo "$phase" >&"${to[$dc]}"; done
  for dc in dc1 dc2; do
    mapfile -t nodes <<<"${half[$dc]}"
    local whole='exit code 0: .*\[OK\] All 16384 slots covered' lacking='exit code 1: .*\[ERR\] Not all 16384 slots are covered'
    local checked="^$whole"
    case $phase-$dc in
      drop-dc1) checked="^(nothing within 20 s|$whole)" ;;
      drop-dc2) checked="^(nothing within 20 s|$lacking)" ;;
      reset-dc2) checked="^$lacking" ;;
    esac
    check "$checked"
    case $phase-$dc in
      drop-dc2 | reset-dc2)
        # Of a key whose owner is behind the cut redis-py 4.3.4 says "cannot pickle": a mistake of its own when it looks for another node.
        redirected '^0/27 read as written, 54 x CLUSTERDOWN The cluster is down$'
        library '^0/9 read as written, .*(ClusterDownError|RedisClusterException|TimeoutError|ConnectionError)'
        ;;
      *)
        redirected '^27/27 read as written$'
        library '^9/9 read as written \([0-9.]* s\)$'
        ;;
    esac
  done
}

declare -A half to from
build_image
printf '%-13s %-7s %-4s %-16s %-16s %s\n' RELEASE PHASE FROM CLIENT "" SAID
for release in "${releases[@]}"; do
  "$testbed" --quiet up topologies/cluster-c.yaml -p "$lab" --release "$release" >/dev/null
  server=$(docker inspect -f '{{.Image}}' "tb-$lab-node-1")
  cli=${release%%-*}-cli
  for dc in dc1 dc2; do
    half[$dc]=$("$testbed" ps -p "$lab" --format json | jq -r --arg dc "$dc" '.nodes[] | select(.datacenter == $dc) | .address')
  done
  # Three hash tags for each of the three ranges; each client has keys of its own with them.
  first=${half[dc1]%%$'\n'*}
  mapfile -t tags < <(for n in $(seq 0 199); do echo "CLUSTER KEYSLOT key$n"; done | cli dc1 -h "${first%:*}" |
    awk '{ range = ($1 > 5460) + ($1 > 10922); if (seen[range]++ < 3) print "key" NR - 1 }')
  for dc in dc1 dc2; do
    mkfifo "$dir/$dc.to" "$dir/$dc.from"
    run_in "$dc" python "$python" /usr/bin/python3
    "${run[@]}" /client.py "$(tr '\n' ',' <<<"${half[$dc]}" | sed 's/,$//')" "$dc" "${tags[@]}" <"$dir/$dc.to" >"$dir/$dc.from" 2>"$dir/$dc.err" &
    exec {fd}>"$dir/$dc.to"
    to[$dc]=$fd
    exec {fd}<"$dir/$dc.from"
    from[$dc]=$fd
  done
  phase before
  for kind in drop reset; do
    "$testbed" --quiet link cut dc1-dc2 --kind "$kind" -p "$lab" >/dev/null
    await "the home half serves all slots and the other one none" 60 "$parted"
    phase "$kind"
    "$testbed" --quiet link heal dc1-dc2 -p "$lab" >/dev/null
    await "all nodes are well after the heal" 60 "$well"
    phase healed
    # The second cut is to promote as well.
    "$testbed" exec -p "$lab" node-3 "$cli" cluster failover >/dev/null
    await "node-3 is a master again" 20 "($well) and all(.clusters[]; .elsewhere == [])"
  done
  for dc in dc1 dc2; do
    fd=${to[$dc]} && exec {fd}>&-
    fd=${from[$dc]} && exec {fd}<&-
    rm "$dir/$dc.to" "$dir/$dc.from"
  done
  "$testbed" --quiet down -p "$lab" -y >/dev/null
done

[ "$unexpected" = 0 ] || {
  echo "$unexpected not as expected" >&2
  exit 1
}
