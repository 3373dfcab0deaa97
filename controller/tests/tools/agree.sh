#!/usr/bin/env bash
# Do tools that have nothing to do with testbed agree with what it says of a link? Raises topologies/two-dc.yaml, runs ping,
# redis-benchmark, iperf3 and tshark in the network namespaces of its nodes, prints a table, and removes the lab.
#
# Usage, as root on the engine's own machine, which should be idle: controller/tests/tools/agree.sh [LAB]
# TESTBED is the program (default: target/debug/testbed). Exit code: 0 all agree, 1 they do not, 4 something is missing here.
set -euo pipefail
cd "$(dirname "$0")/../../.."

lab=${1:-agree}
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

# How far a tool's round trip may lie from the report's, ms: two programs wake up at both ends, each in its own way.
slack=0.4

trap finish EXIT
"$testbed" --quiet up topologies/two-dc.yaml -p "$lab" >/dev/null
near=$(pid redis-primary)
far=$(pid redis-far)
near_ip=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "tb-$lab-redis-primary")
far_ip=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "tb-$lab-redis-far")

# What the report says: the round trips that block 3 measured between the probes.
# Its verdicts are not the matter here.
code=0
"$testbed" --quiet run --only 3 -p "$lab" --out "$dir/run" >/dev/null || code=$?
case $code in
  0 | 10 | 11) ;;
  *) echo "testbed run ended with exit code $code" >&2; exit "$code" ;;
esac
report_rtt() {
  jq -r --arg delay "$1" '.blocks[] | select(.block == 3) | .table.rows[] | select(.[1] == $delay and .[2] != "-") | .[2]' \
    "$dir/run/report.json" | head -1
}

printf '%-72s %10s %10s  %10s   %-10s\n' "" "the tool" "testbed" "from" "to"

for delay in 5 20 40; do
  "$testbed" --quiet link set dc1-dc2 "delay=${delay}ms" -p "$lab" >/dev/null
  said=$(report_rtt "${delay}ms")
  at "$near" ping -c 60 -i 0.05 "$far_ip" | sed -n 's/.*time=\([0-9.]*\) ms/\1/p' >"$dir/ping"
  least=$(sort -n "$dir/ping" | head -1)
  ping=$(median <"$dir/ping")
  row "ping, shortest of 60, ${delay} ms one way (ms; said: 2 x delay)" "$least" $((2 * delay)) "$(calc "2 * $delay - 0.05")" "$(calc "$said + $slack")"
  row "ping, median, ${delay} ms one way (ms; said: the report's round trip)" "$ping" "$said" "$(calc "$said - $slack")" "$(calc "$said + $slack")"
  get=$(at "$near" redis-benchmark -h "$far_ip" -c 1 -n 60 -t get --csv | awk -F'"' '$2 == "GET" { print $10 }')
  row "redis-benchmark GET, p50, ${delay} ms one way (ms; said: the report's)" "$get" "$said" "$(calc "$said - $slack")" "$(calc "$said + $slack")"
done

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
"$testbed" --quiet link set dc1-dc2 rate=unlimited -p "$lab" >/dev/null

"$testbed" --quiet link set dc1:dc2 loss=2% -p "$lab" >/dev/null
before=$(counter dc1:dc2 dropped.loss_packets)
at "$near" iperf3 -u -c "$far_ip" -p 5201 -b 10M -l 1000 -t 5 -J >"$dir/lossy"
after=$(counter dc1:dc2 dropped.loss_packets)
"$testbed" --quiet link set dc1:dc2 loss=none -p "$lab" >/dev/null
# The tool talks over TCP beside, and does not miss what came last.
row "iperf3 UDP, packets lost (said: dropped by the link)" "$(jq .end.sum.lost_packets "$dir/lossy")" $((after - before)) $((after - before - 5)) $((after - before))
# Four standard deviations of 6250 packets.
row "iperf3 UDP, packets lost (%; said: loss=2%)" "$(jq .end.sum.lost_percent "$dir/lossy")" 2 1.29 2.71

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
at "$near" ping -q -c 40 -i 0.05 "$far_ip" >/dev/null
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
row "tshark in dc1, response time, 5 ms one way (ms; said: the report's)" "$response" "$(report_rtt 5ms)" "$(calc "$(report_rtt 5ms) - $slack")" "$(calc "$(report_rtt 5ms) + $slack")"

[ "$disagreements" = 0 ] || {
  echo "$disagreements disagree" >&2
  exit 1
}
