#!/bin/sh
# Run the tests: sh scripts/test.sh BIN [pytest arguments]. Without arguments all of them, in three processes per core: some
# keep a core busy, but most wait, for leases to lapse and for workers to start.
set -eu
bin=$1
shift
if [ $# -gt 0 ]; then
    exec "$bin/python" -m pytest "$@"
fi
cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Hypothesis's plugin would read all modules in each process, to find numbers for tests that one of them runs.
exec "$bin/python" -m pytest -q -p no:cacheprovider -p no:hypothesispytest \
    --numprocesses "${LEASEHOLD_TEST_PROCESSES:-$((3 * cores))}" --dist worksteal --durations 25
