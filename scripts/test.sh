#!/bin/sh
# Run the tests: sh scripts/test.sh BIN [pytest arguments]. Without arguments all of them, in several processes: some keep a
# core busy, but most wait, for leases to lapse and for workers to start, so there are more processes than cores.
set -eu
bin=$1
shift
if [ $# -gt 0 ]; then
    exec "$bin/python" -m pytest "$@"
fi
exec "$bin/python" -m pytest -q -p no:cacheprovider --numprocesses "${LEASEHOLD_TEST_PROCESSES:-4}" --dist worksteal --durations 25
