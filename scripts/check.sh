#!/bin/sh
# All checks that need no Redis. Runs every one of them, then says which failed.
set -u
bin=$1
failed=""

run() {
    label=$1
    shift
    printf '%s\n' "-- $label"
    "$@" || failed="$failed  $label
"
}

run "ruff check" "$bin/ruff" check --quiet --output-format concise .
run "ruff format" "$bin/ruff" format --check --quiet --output-format concise .
run "types (mypy)" "$bin/mypy"
run "import contracts" "$bin/lint-imports" --no-logo
run "forbidden content" "$bin/python" scripts/forbidden.py
run "words" "$bin/python" scripts/words.py

run "reference pages" "$bin/python" -m scripts.reference --check

if [ -n "$failed" ]; then
    printf '\nFailed:\n%s' "$failed" >&2
    exit 1
fi
echo "All checks passed."
