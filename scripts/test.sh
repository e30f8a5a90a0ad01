#!/bin/sh
# Run the tests: sh scripts/test.sh BIN [pytest arguments]. Without arguments all of them, in four parts side by side: the
# engine suites keep one core busy, the others mostly wait (for leases to lapse, for processes to start).
set -eu
bin=$1
shift
if [ $# -gt 0 ]; then
    exec "$bin/python" -m pytest "$@"
fi
engines="tests/conformance tests/property tests/faults/test_crash_matrix.py"
workers="tests/runtime tests/faults/lanes"
faults="tests/faults/harness tests/faults/test_scenarios.py"
reports=$(mktemp -d)

# Word splitting is wanted: a part is several folders.
# shellcheck disable=SC2086
"$bin/python" -m pytest -p no:cacheprovider $engines >"$reports/engines" 2>&1 &
first=$!
# shellcheck disable=SC2086
"$bin/python" -m pytest -p no:cacheprovider $workers >"$reports/workers" 2>&1 &
second=$!
# shellcheck disable=SC2086
"$bin/python" -m pytest -p no:cacheprovider $faults >"$reports/faults" 2>&1 &
third=$!
trap 'kill "$first" "$second" "$third" 2>/dev/null || true; rm -rf "$reports"' EXIT
status=0
# shellcheck disable=SC2086,SC2046
"$bin/python" -m pytest $(printf -- '--ignore=%s ' $engines $workers $faults) || status=$?
wait "$first" || status=$?
wait "$second" || status=$?
wait "$third" || status=$?
cat "$reports/engines" "$reports/workers" "$reports/faults"
exit "$status"
