#!/usr/bin/env bash
# The release archive on a machine without a toolchain: unpacked into an empty folder, with neither cargo nor the source in reach, it
# validates, plans, exports and runs a block.
#
#   controller/tests/tools/package.sh [ARCHIVE]      (default: .ci/package makes one)
#
# Exit code: 0 all is well (11 of the run counts: nothing diverged), 1 it is not.
set -euo pipefail
cd "$(dirname "$0")/../../.."

archive=$(realpath "${1:-$(.ci/package | tail -1)}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home" "$work/bin"
tar -xzf "$archive" -C "$work"
folder=$(echo "$work"/testbed-*)
# Only what a bare machine has. cargo hides nowhere: rustup's folder is under HOME.
for tool in apt-get apt-cache dpkg-deb sh ip docker; do
  path=$(command -v "$tool") && ln -s "$path" "$work/bin/$tool"
done
bare() { env -i HOME="$work/home" PATH="$folder:$work/bin" CARGO=/nonexistent/cargo ${DOCKER_HOST:+DOCKER_HOST="$DOCKER_HOST"} "$@"; }
cd "$work"
bare testbed --version
bare testbed validate "$folder"/topologies/*.yaml >/dev/null
bare testbed export compose "$folder/topologies/two-dc.yaml" >/dev/null
code=0
bare testbed run --only 1 --out "$work/run" || code=$?
case $code in 0 | 11) ;; *) echo "testbed run ended with exit code $code" >&2; exit 1 ;; esac
# It is the packaged instrument that measured, not one from a checkout.
for program in relay probe; do
  digest=$(sha256sum "$folder/$program" | cut -d' ' -f1)
  grep -q "$digest" "$work/run/manifest.json" || { echo "the run did not use the packaged $program" >&2; exit 1; }
done
echo "the archive works alone: $(basename "$archive"), $(stat -c %s "$archive") bytes, run ended with $code"
