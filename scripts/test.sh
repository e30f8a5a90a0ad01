#!/bin/sh
# Run the tests: sh scripts/test.sh BIN [pytest arguments]. Without arguments all of them, in three processes per core: some
# keep a core busy, but most wait, for leases to lapse and for workers to start. Tests that fail then run once more, one at a
# time. A defect fails again. A test that passes alone could not stand the load, and it needs a mend, too: so the last lines
# name all tests that were run twice. `make ci` repeats these lines at its own end: see second_tries.sh.
set -eu
bin=$1
shift
if [ $# -gt 0 ]; then
    exec "$bin/python" -m pytest "$@"
fi
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
cache=$(mktemp -d)
tried=build/second-tries.txt
rm -f "$tried"
trap 'rm -rf "$cache"' EXIT
status=0
# In a fresh checkout each process would compile all test modules for itself: one does it for all.
[ -e tests/__pycache__ ] || "$bin/python" -m pytest -q -p no:hypothesispytest -p no:cacheprovider --collect-only >/dev/null || :
# Hypothesis's plugin would read all modules in each process, to find numbers for tests that one of them runs.
"$bin/python" -m pytest -q -p no:hypothesispytest -o "cache_dir=$cache" \
    --numprocesses "${TENURE_TEST_PROCESSES:-$((3 * cores))}" --dist worksteal --durations 25 || status=$?
[ "$status" -le 1 ] || exit "$status"
mkdir -p build
: >"$tried"
if [ "$status" -eq 1 ]; then
    "$bin/python" -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' "$cache/v/cache/lastfailed" >"$tried"
    printf '\nOnce more, one at a time:\n'
    status=0
    "$bin/python" -m pytest -v -p no:hypothesispytest -o "cache_dir=$cache" --last-failed --last-failed-no-failures none \
        --maxfail 1 || status=$?
fi
sh scripts/second_tries.sh "$tried"
exit "$status"
