#!/usr/bin/env bash
# Are the reports of a run or a matrix what others take for theirs? The page in a browser, at desktop and phone width, light and dark: console,
# overflow, texts that lie on each other or outside, contrast, axe; a screenshot of each. JUnit, OpenMetrics and JSON by public
# parsers, Markdown and page by their size.
#
# Usage: controller/tests/tools/reports.sh RUN [SHOTS]
# RUN is a run or matrix directory, SHOTS where screenshots go (default: a new directory, which is printed). TESTBED is the program (default:
# target/debug/testbed), PYTHON has the packages named below (default: an environment of its own, made by pip).
# Exit code: 0 all is well, 1 it is not, 4 something is missing here.
set -euo pipefail
run=$(realpath "${1:?a run or matrix directory}")
shots=$(realpath -m "${2:-$(mktemp -d)}")
cd "$(dirname "$0")/../../.."
testbed=${TESTBED:-target/debug/testbed}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

missing() {
  echo "skipped: $1" >&2
  exit 4
}
for tool in chromium chromedriver python3; do
  command -v "$tool" >/dev/null || missing "no $tool (apt-get install chromium chromium-driver python3-venv)"
done
[ -x "$testbed" ] || missing "no $testbed (cargo build)"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$dir/env"
  # axe-playwright-python is there for the axe-core that it brings along.
  "$dir/env/bin/pip" install -q junitparser prometheus-client jsonschema selenium axe-playwright-python html5lib ||
    missing "the packages cannot be installed"
  python=$dir/env/bin/python
fi

for format in html junit openmetrics json markdown; do
  "$testbed" --quiet report "$run" --format "$format" >"$dir/report.$format"
done
mkdir -p "$shots"
# A matrix may be as large as 2 MB.
kind=report most=400000
[ ! -f "$run/matrix.json" ] || kind=versions most=2000000
"$python" controller/tests/tools/reports.py "$dir" "controller/schema/$kind.schema.json" "$shots" "$most"
