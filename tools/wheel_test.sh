#!/usr/bin/env bash
# Builds sdist and wheel, installs each into a fresh environment, and runs the smoke tests there: the wheel first without
# and then with the extra `report`. Versions are those of requirements.lock.
#   tools/wheel_test.sh [FOLDER]     environments go below FOLDER (build/wheel-test)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
place=${1:-build/wheel-test}
rm -rf dist "$place"
mkdir -p "$place"
place=$(cd "$place" && pwd)

fresh() { "${PYTHON:-python3}" -m venv "$place/$1"; }
install() { "$place/$1/bin/pip" install --quiet --disable-pip-version-check -c requirements.lock "${@:2}"; }
smoke() { mkdir -p "$place/run-$2" && (cd "$place/run-$2" && env -u PYTHONPATH "$place/$1/bin/python" "$root/tests/smoke.py" "${@:3}"); }

fresh build
"$place/build/bin/pip" install --quiet --disable-pip-version-check -c requirements.lock build setuptools twine
"$place/build/bin/python" -m build --no-isolation --outdir dist .
"$place/build/bin/python" -m twine check --strict dist/*

fresh wheel
install wheel dist/*.whl
smoke wheel core --light
install wheel "$(ls dist/*.whl)[report]"
smoke wheel report

fresh sdist
install sdist "$(ls dist/*.tar.gz)[report]"
smoke sdist sdist
echo "Wheel and source distribution are installed and work: $(ls dist | tr '\n' ' ')"
