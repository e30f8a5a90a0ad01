#!/bin/sh
# Print which tests of the last whole run needed a second try: sh scripts/second_tries.sh FILE. Prints nothing if there was no such
# run since the file was removed.
set -eu
[ -e "$1" ] || exit 0
count=$(wc -l <"$1")
if [ "$count" -eq 0 ]; then
    printf '\nSecond tries: none.\n'
    exit 0
fi
printf '\nSecond tries: %d. Each is a defect, also where the test passed alone:\n' "$count"
sed 's/^/  /' "$1"
