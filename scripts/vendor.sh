#!/bin/sh
# Compares the files of other projects that the dashboard ships with the packages that they come from. Needs npm.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
vendor=$here/src/tenure/web/static/vendor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for package in idiomorph@0.8.0 uplot@1.6.32; do
    file=$(npm pack --silent "$package")
    mkdir "${package%@*}"
    tar -xzf "$file" -C "${package%@*}"
done
cmp idiomorph/package/dist/idiomorph.min.js "$vendor/idiomorph.min.js"
cmp idiomorph/package/LICENSE "$vendor/idiomorph.LICENSE"
cmp uplot/package/dist/uPlot.iife.min.js "$vendor/uPlot.iife.min.js"
cmp uplot/package/dist/uPlot.min.css "$vendor/uPlot.min.css"
cmp uplot/package/LICENSE "$vendor/uPlot.LICENSE"
(cd "$vendor" && sha256sum --check --quiet SHA256SUMS)
echo "All files are those of the packages."
