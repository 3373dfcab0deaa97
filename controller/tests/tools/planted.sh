#!/usr/bin/env bash
# Whether block 15 finds what is planted: folders with the same server, each with one setting of its own (server.conf), entered beside
# the server as it is. A plant that a block measures must be a claim that moved, one that none measures must stand among the settings
# that differ and move no claim. A cell that the plant keeps from its end is named with its reason, and counts as found too where a
# block measures it.
#
#   controller/tests/tools/planted.sh [REPEAT=1] [PLANT...]
#
# A claim moves from holds to diverged or back; one that was not decided on either side tells nothing.
#
# Plants: coverage (block 5: dc1 serves on; in layout A, block 4, dc1 has all masters and nothing can change), backlog (block 1), buffer
# (block 2; nobody measures it. Testbed itself starts servers with a backlog of 10 MB, so the backlog plant is missed as it stands. A limit counts what the replica's socket has not taken, and no block writes more than a socket takes).
# IMAGE is where the server comes from (testbed/redis:7.0.15), TESTBED the program (default:
# target/debug/testbed). Exit code: 0 all were found and named, 1 one was not; that of testbed if it fails.
set -euo pipefail
cd "$(dirname "$0")/../../.."

repeat=${1:-1}
shift || true
plants=("$@")
[ "$#" -gt 0 ] || plants=(coverage buffer backlog)
image=${IMAGE:-testbed/redis:7.0.15}
testbed=$(realpath -m "${TESTBED:-target/debug/testbed}")
[ -x "$testbed" ] || {
  echo "skipped: no $testbed (cargo build)" >&2
  exit 4
}
. controller/tests/tools/build-folder.sh
place=$(mktemp -d)
build_folder "$image" "$place/as-it-is"
failed=0

# planted NAME BLOCKS SETTING MEASURED CLAIM: a matrix with the plant; MEASURED says whether a claim, one that matches CLAIM, must move.
planted() {
  local name=$1 blocks=$2 setting=$3 measured=$4 claim=$5
  local folder=plant-$name report=$place/$name/report.json code=0 moved differs stopped told=found
  cp -a "$place/as-it-is" "$place/$folder"
  printf '%b\n' "$setting" >"$place/$folder/server.conf"
  (cd "$place" && "$testbed" --quiet matrix --release redis=./as-it-is --release "redis=./$folder" --only "$blocks" --repeat "$repeat" \
    --out "$place/$name") >"$place/out" || code=$?
  # A verdict, or a cell that was not completed (5), is a result once there is a report.
  case $code in
    0 | 5 | 10 | 11) ;;
    *) exit "$code" ;;
  esac
  [ -s "$report" ] || exit "$code"
  moved=$(jq -r --arg release "$folder" '[.moved[] | select((.release | endswith($release)) and ([.from, .to] | sort == ["diverged", "holds"])) | "\(.claim): \(.from) -> \(.to)"] | join("; ")' "$report")
  differs=$(jq -r --arg name "${setting%% *}" '[.settings[] | select(.name == $name) | .values | map(join(",")) | join(" -> ")] | join("")' "$report")
  stopped=$(jq -r '[.incomplete[] | "\(.release), \(.topology): \(.reason)"] | join("; ")' "$report")
  [ -n "$differs" ] || told=missed
  case $measured in
    yes) grep -qE "$claim" <<<"$stopped $moved" || told=missed ;;
    no) [ -z "$moved$stopped" ] || told="found, but more than it moved" ;;
  esac
  # The server as it is must be measured to its end whatever is planted beside it.
  [[ $stopped != *as-it-is* ]] || told="not comparable"
  printf '%s (blocks %s): %s; setting %s: %s; claims that moved: %s; cells not completed: %s\n' "$name" "$blocks" "$told" "${setting%% *}" \
    "${differs:-none}" "${moved:-none}" "${stopped:-none}"
  [ "$told" = found ] || failed=$((failed + 1))
}

for plant in "${plants[@]}"; do
  case $plant in
    coverage) planted coverage 5 "cluster-require-full-coverage no" yes "5\\.dc1-down@cut" ;;
    buffer) planted buffer 2 "client-output-buffer-limit replica 4kb 4kb 1\nrepl-backlog-size 4kb" no . ;;
    backlog) planted backlog 1 "repl-backlog-size 64kb" no . ;;
    *)
      echo "no plant $plant: coverage, buffer, backlog" >&2
      exit 2
      ;;
  esac
done

if [ "$failed" = 0 ]; then
  rm -rf "$place"
else
  echo "$failed plants were not found and named; matrices: $place" >&2
  exit 1
fi
