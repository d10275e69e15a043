#!/usr/bin/env bash
# Real neighbours of vLLM on the CPU: a Mooncake master and client, Dynamo with mocker workers, vllm-router.
# Usage: real_neighbours.sh install DIR          make DIR/{mooncake,dynamo,router} (1.3 GB, some minutes)
#        real_neighbours.sh installed DIR        exit 0 if `install` has come to its end
#        real_neighbours.sh mooncake DIR [master options]         a Mooncake master, in the foreground
#        real_neighbours.sh mooncake-client DIR PROGRAM [words]   a Python program with Mooncake's client
#        real_neighbours.sh dynamo-frontend DIR STORE [options]   Dynamo's front end; STORE is the folder it finds workers by
#        real_neighbours.sh dynamo-worker DIR STORE [options]     a mocker worker for the model "tiny"
#        real_neighbours.sh router DIR [options]                  vllm-router
# Mooncake wants libibverbs and librdmacm: they are unpacked beside it (Debian's packages), nothing is installed.
set -euo pipefail
version="mooncake 0.3.13.post1, dynamo 1.6.1, vllm-router 0.1.17"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '3,9s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
(($# >= 2)) || usage
what=$1 dir=$2
shift 2
is_installed() { [[ $(cat "$dir/installed" 2> /dev/null) == "$version" ]]; }

venv() { # venv NAME PACKAGES...
    local name=$1
    shift
    [[ -x $dir/$name/bin/pip ]] || python3 -m venv "$dir/$name"
    "$dir/$name/bin/pip" install -q "$@"
}

install() {
    is_installed && return
    mkdir -p "$dir/libraries"
    venv mooncake mooncake-transfer-engine-non-cuda==0.3.13.post1
    (cd "$dir/libraries" && apt-get download -q libibverbs1 librdmacm1 libnl-3-200 libnl-route-3-200 &&
        for package in *.deb; do dpkg -x "$package" .; done)
    venv router vllm-router==0.1.17 aiohttp
    # Dynamo's package asks for one that is not to be had (aisimulate); front end and mocker do without.
    venv dynamo --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1
    venv dynamo 'aiohttp>=3.14.3' certifi 'kubernetes<33,>=32.0.1' msgspec 'prometheus-client>=0.23.1' 'pyzmq>=26' \
        'redis<9' tqdm transformers zstandard 'pydantic<=2.13.5' uvloop tokenizers
    # The mocker writes token ids of its own choice: with a small vocabulary almost none of them is a text.
    "$dir/dynamo/bin/python" "$here/make_tiny_model.py" "$dir/model" 4096
    echo "$version" > "$dir/installed"
}

# Dynamo finds its workers in a folder, and speaks over loopback only.
dynamo() {
    local store=$1
    shift
    mkdir -p "$store"
    export HF_HUB_OFFLINE=1 DYN_DISCOVERY_BACKEND=file DYN_FILE_KV=$store DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq
    export DYN_TCP_RPC_HOST=127.0.0.1 DYN_SYSTEM_HOST=127.0.0.1
    exec "$dir/dynamo/bin/python" "$@"
}

case $what in
install) install ;;
installed) is_installed ;;
mooncake | mooncake-client)
    export LD_LIBRARY_PATH=$dir/libraries/usr/lib/x86_64-linux-gnu:$dir/libraries/lib/x86_64-linux-gnu
    if [[ $what == mooncake ]]; then exec "$dir/mooncake/bin/mooncake_master" "$@"; fi
    exec "$dir/mooncake/bin/python" "$@"
    ;;
dynamo-frontend)
    (($# >= 1)) || usage
    dynamo "$1" -m dynamo.frontend --http-host 127.0.0.1 --router-mode kv --kv-cache-block-size 16 "${@:2}"
    ;;
dynamo-worker)
    (($# >= 1)) || usage
    dynamo "$1" -m dynamo.mocker --model-path "$dir/model" --model-name tiny --block-size 16 \
        --num-gpu-blocks-override 512 --max-num-seqs 16 "${@:2}"
    ;;
router) exec "$dir/router/bin/vllm-router" "$@" ;;
*) usage ;;
esac
