#!/bin/sh
# Run the tests: sh scripts/test.sh BIN [pytest arguments]. Without arguments all of them, in two halves side by side: the
# engine suites keep one core busy, and the others mostly wait (for leases to lapse, for processes to start).
set -eu
bin=$1
shift
if [ $# -gt 0 ]; then
    exec "$bin/python" -m pytest "$@"
fi
engine_suites="tests/conformance tests/property tests/faults/test_crash_matrix.py"
report=$(mktemp)
trap 'rm -f "$report"' EXIT
# shellcheck disable=SC2086
"$bin/python" -m pytest -p no:cacheprovider $engine_suites >"$report" 2>&1 &
engines=$!
trap 'kill "$engines" 2>/dev/null; rm -f "$report"' INT TERM
status=0
# shellcheck disable=SC2086
"$bin/python" -m pytest $(printf -- '--ignore=%s ' $engine_suites) || status=$?
wait "$engines" || status=$?
cat "$report"
exit "$status"
