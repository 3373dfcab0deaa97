#!/usr/bin/env bash
# Do tools that have nothing to do with testbed agree with what it says of a link? Raises topologies/two-dc.yaml, runs ping,
# redis-benchmark, iperf3 and tshark in the network namespaces of its nodes, prints a table, and removes the lab.
#
# Usage, as root on the engine's own machine, which should be idle: controller/tests/tools/agree.sh [LAB] [latency] [load] [capture]
# Without further words all three groups of rows. LAB must not be up. TESTBED is the program (default: target/debug/testbed).
# Exit code: 0 all agree, 1 they do not, 4 something is missing here; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

lab=${1:-agree}
groups=${*:2}
groups=${groups:-latency load capture}
testbed=${TESTBED:-target/debug/testbed}
dir=$(mktemp -d)
started=()
disagreements=0

finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  "$testbed" --quiet down -p "$lab" -y >/dev/null || true
  rm -rf "$dir"
}

missing() {
  echo "skipped: $1" >&2
  exit 4
}

for tool in ping iperf3 redis-benchmark tshark jq nsenter docker; do
  command -v "$tool" >/dev/null ||
    missing "no $tool (apt-get install iputils-ping iperf3 redis-tools tshark jq util-linux docker.io)"
done
[ "$(id -u)" = 0 ] || missing "entering a node's network namespace needs root"
[ -x "$testbed" ] || missing "no $testbed (cargo build)"

# pid NODE: of its main process.
pid() { docker inspect -f '{{.State.Pid}}' "tb-$lab-$1"; }
# at PID COMMAND...: in that network namespace.
at() { nsenter -t "$1" -n "${@:2}"; }
median() { sort -n | awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'; }
calc() { awk "BEGIN { printf \"%.3f\", $* }"; }
# counter DIRECTION NAME: of the link, e.g. forwarded_bytes.
counter() {
  "$testbed" link show -p "$lab" --format json |
    jq --arg from "${1%:*}" --arg to "${1#*:}" ".links[] | select(.from == \$from and .to == \$to) | .$2"
}
# row WHAT MEASURED SAID LOWEST HIGHEST: a line of the table; MEASURED must lie between the last two.
row() {
  local verdict
  verdict=$(awk "BEGIN { print ($2 >= $4 && $2 <= $5) ? \"agrees\" : \"DISAGREES\" }")
  [ "$verdict" = agrees ] || disagreements=$((disagreements + 1))
  awk -v what="$1" -v verdict="$verdict" \
    "BEGIN { printf \"%-72s %10.9g %10.9g  %10.9g - %-10.9g %s\\n\", what, $2, $3, $4, $5, verdict }"
}

# wants GROUP: whether its rows were asked for.
wants() { [[ " $groups " == *" $1 "* ]]; }
# How far a tool's round trip may lie from the report's, ms: two programs wake up at both ends, each in its own way.
slack=0.4

trap finish EXIT
"$testbed" --quiet up topologies/two-dc.yaml -p "$lab" >/dev/null
near=$(pid redis-primary)
far=$(pid redis-far)
near_ip=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "tb-$lab-redis-primary")
far_ip=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "tb-$lab-redis-far")

# said DELAY_MS: what testbed measures of the link at that delay with nothing beside, as the pings are: the calibration before
# a block, datagrams between the probes, medians of both directions. The block's verdicts are not the matter here.
said() {
  local code=0 dir_of_run
  dir_of_run=$(mktemp -d -p "$dir")/run
  "$testbed" --quiet link set dc1-dc2 "delay=${1}ms" -p "$lab" >/dev/null
  "$testbed" --quiet run --only 2 -p "$lab" --out "$dir_of_run" >/dev/null || code=$?
  case $code in
    0 | 10 | 11) ;;
    *) echo "testbed run ended with exit code $code" >&2; return "$code" ;;
  esac
  jq -s 'def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
    [.[].what.calibrated | select(.) | .one_way_ns | median] | if length == 2 then add / 1e6 else error("no calibration") end' \
    "$dir_of_run/history.jsonl"
}
# pings COUNT DELAY_MS MORE...: each a millisecond after the reply to the one before, as testbed's own, so that the processors have
# slept as long.
pings() { at "$near" ping -c "$1" -i "$(calc "(2 * $2 + 1) / 1000")" "${@:3}" "$far_ip"; }

printf '%-72s %10s %10s  %10s   %-10s\n' "" "the tool" "testbed" "from" "to"

latency() {
  local delay said least ping get
  for delay in 5 20 40; do
    said=$(said "$delay")
    pings 60 "$delay" | sed -n 's/.*time=\([0-9.]*\) ms/\1/p' >"$dir/ping"
    least=$(sort -n "$dir/ping" | head -1)
    ping=$(median <"$dir/ping")
    row "ping, shortest of 60, ${delay} ms one way (ms; said: 2 x delay)" "$least" $((2 * delay)) "$(calc "2 * $delay - 0.05")" "$(calc "$said + $slack")"
    row "ping, median, ${delay} ms one way (ms; said: the calibration's)" "$ping" "$said" "$(calc "$said - $slack")" "$(calc "$said + $slack")"
    get=$(at "$near" redis-benchmark -h "$far_ip" -c 1 -n 60 -t get --csv | awk -F'"' '$2 == "GET" { print $10 }')
    row "redis-benchmark GET, p50, ${delay} ms one way (ms; said: the calibration's)" "$get" "$said" "$(calc "$said - $slack")" "$(calc "$said + $slack")"
  done
}

load() {
  local before after sent
  "$testbed" --quiet link set dc1-dc2 delay=5ms -p "$lab" >/dev/null
  nsenter -t "$far" -n iperf3 -s -p 5201 >"$dir/server" 2>&1 &
  started+=($!)
  sleep 0.5

  before=$(counter dc1:dc2 forwarded_bytes)
  at "$near" iperf3 -c "$far_ip" -p 5201 -n 200M -J >"$dir/bulk"
  after=$(counter dc1:dc2 forwarded_bytes)
  sent=$(jq .end.sum_sent.bytes "$dir/bulk")
  # Headers come on top: 40 to 52 bytes for each packet of 1448, or for each burst.
  row "iperf3 TCP, bytes sent (said: bytes that the link forwarded)" "$sent" $((after - before)) "$(calc "($after - $before) * 0.95")" $((after - before))

  "$testbed" --quiet link set dc1-dc2 rate=100mbit -p "$lab" >/dev/null
  at "$near" iperf3 -c "$far_ip" -p 5201 -t 4 -O 1 -J >"$dir/limited"
  # Of each packet of 1500 bytes 1448 are the tool's.
  row "iperf3 TCP, payload (Mbit/s; said: rate=100mbit)" "$(jq '.end.sum_received.bits_per_second / 1e6' "$dir/limited")" 100 93 100
  "$testbed" --quiet link set dc1-dc2 rate=default -p "$lab" >/dev/null

  "$testbed" --quiet link set dc1:dc2 loss=2% -p "$lab" >/dev/null
  before=$(counter dc1:dc2 dropped.loss_packets)
  at "$near" iperf3 -u -c "$far_ip" -p 5201 -b 10M -l 1000 -t 5 -J >"$dir/lossy"
  after=$(counter dc1:dc2 dropped.loss_packets)
  "$testbed" --quiet link set dc1:dc2 loss=none -p "$lab" >/dev/null
  # The tool talks over TCP beside, and does not miss what came last.
  row "iperf3 UDP, packets lost (said: dropped by the link)" "$(jq .end.sum.lost_packets "$dir/lossy")" $((after - before)) $((after - before - 5)) $((after - before))
  # Four standard deviations of 6250 packets.
  row "iperf3 UDP, packets lost (%; said: loss=2%)" "$(jq .end.sum.lost_percent "$dir/lossy")" 2 1.29 2.71
}

capture() {
  local said log capture step class response
  said=$(said 5)
  # tshark on both nodes, and the link's own capture between them.
  nsenter -t "$near" -n tshark -q -i eth0 -f icmp -w "$dir/near" 2>"$dir/near.log" &
  started+=($!)
  nsenter -t "$far" -n tshark -q -i eth0 -f icmp -w "$dir/far" 2>"$dir/far.log" &
  started+=($!)
  for log in near.log far.log; do
    for _ in $(seq 50); do grep -q Capturing "$dir/$log" && break || sleep 0.1; done
  done
  "$testbed" --quiet link capture dc1-dc2 -w "$dir/link" --for 4s -p "$lab" >/dev/null &
  capture=$!
  sleep 1
  pings 40 5 -q >/dev/null
  wait "$capture"
  kill "${started[@]: -2}"
  wait "${started[@]: -2}" 2>/dev/null || true
  # times FILE FILTER: sequence number and time of every packet, in order of the numbers.
  times() { tshark -r "$1" -Y "$2" -T fields -e icmp.seq -e frame.time_epoch 2>/dev/null | sort -n; }
  # gap ONE TWO: median time from one to the other, ms.
  gap() { join "$1" "$2" | awk '{ print ($3 - $2) * 1000 }' | median; }
  for step in near:'icmp.type == 8' far:'icmp.type == 8'; do
    times "$dir/${step%%:*}" "${step#*:}" | sort -k1,1 >"$dir/${step%%:*}.out"
  done
  for class in arrival departure; do
    times "$dir/link" "icmp.type == 8 && frame.interface_name == \"dc1:dc2 $class\"" | sort -k1,1 >"$dir/$class"
    row "tshark in dc1, requests (said: the capture's, $class)" "$(wc -l <"$dir/near.out")" "$(wc -l <"$dir/$class")" "$(wc -l <"$dir/$class")" "$(wc -l <"$dir/$class")"
  done
  row "tshark in dc2, requests (said: the capture's, departure)" "$(wc -l <"$dir/far.out")" "$(wc -l <"$dir/departure")" "$(wc -l <"$dir/departure")" "$(wc -l <"$dir/departure")"
  # Between the nodes lie the hops to and from the relays too.
  row "tshark, from dc1 to dc2 (ms; said: the capture's, arrival to departure)" "$(gap "$dir/near.out" "$dir/far.out")" "$(gap "$dir/arrival" "$dir/departure")" "$(gap "$dir/arrival" "$dir/departure")" "$(calc "$(gap "$dir/arrival" "$dir/departure") + $slack")"
  response=$(tshark -r "$dir/near" -Y icmp.resptime -T fields -e icmp.resptime 2>/dev/null | median)
  row "tshark in dc1, response time, 5 ms one way (ms; said: the calibration's)" "$response" "$said" "$(calc "$said - $slack")" "$(calc "$said + $slack")"
}

for group in latency load capture; do
  if wants "$group"; then "$group"; fi
done

[ "$disagreements" = 0 ] || {
  echo "$disagreements disagree" >&2
  exit 1
}
