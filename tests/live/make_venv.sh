#!/usr/bin/env bash
# A virtual environment, on a fresh Debian or Ubuntu too, where python3 comes without its venv module.
# Usage: make_venv.sh PYTHON DIR
set -euo pipefail
python=$1 dir=$2
command -v "$python" > /dev/null || { echo "$python is not there. Install Python 3.11 or newer, or say make PYTHON=..." >&2; exit 1; }
"$python" - <<'P' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}. Say: make PYTHON=python3.12")
P
[[ -x $dir/bin/python ]] && "$dir/bin/python" -m pip --version > /dev/null 2>&1 && exit 0
if ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
    as_root=()
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    package=$("$python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv")')
    echo "installing $package: this Python has no venv module"
    if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -q -y --no-install-recommends "$package"; } < /dev/null; then
        echo "$package could not be installed. Install it yourself: apt-get install $package" >&2
        exit 1
    fi
fi
"$python" -m venv "$dir"
