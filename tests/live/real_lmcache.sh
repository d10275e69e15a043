#!/usr/bin/env bash
# A real LMCache multiprocess server on the CPU, and a real vLLM that keeps its KV there. Needs what real_vllm.sh installed.
# Usage: real_lmcache.sh install DIR        make DIR/lmcache-venv beside real_vllm.sh's DIR/venv (15 s, 40 MB)
#        real_lmcache.sh installed DIR      exit 0 if `install` has come to its end
#        real_lmcache.sh serve DIR PORT HTTP_PORT      the cache server in the foreground; its metrics are on HTTP_PORT
#        real_lmcache.sh vllm DIR PORT CACHE_PORT [vLLM options]   a vLLM on PORT whose connector asks the server on
#                                          CACHE_PORT
# The wheel is built for CUDA and falls back to the CPU; what it wants of CUDA is left out, torch is vLLM's own.
set -euo pipefail
version=0.5.6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '3,7s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
(($# >= 2)) || usage
what=$1 dir=$2
shift 2
export HF_HUB_OFFLINE=1 LMCACHE_TRACK_USAGE=false
venv=$dir/lmcache-venv
is_installed() { [[ -x $venv/bin/lmcache && $(cat "$dir/lmcache-installed" 2> /dev/null) == "$version" ]]; }

install() {
    is_installed && return
    bash "$here/real_vllm.sh" installed "$dir" || { echo "no vLLM in $dir: real_vllm.sh install $dir" >&2; return 1; }
    [[ -x $venv/bin/pip ]] || python3 -m venv "$venv"
    local purelib='import sysconfig; print(sysconfig.get_path("purelib"))'
    "$dir/venv/bin/python" -c "$purelib" > "$("$venv/bin/python" -c "$purelib")/vllm.pth"
    "$venv/bin/pip" install -q --no-deps "lmcache==$version" aiofile caio aiofiles awscrt nvtx \
        'opentelemetry-exporter-prometheus<=0.61b0' opentelemetry-api==1.40.0 opentelemetry-sdk==1.40.0 \
        opentelemetry-semantic-conventions==0.61b0 prometheus_client==0.24.1 redis setuptools_scm vcs-versioning \
        sortedcontainers google-api-core importlib_metadata==8.7.0 zipp
    echo "$version" > "$dir/lmcache-installed"
}

case $what in
install) install ;;
installed) is_installed ;;
serve)
    (($# == 2)) || usage
    exec "$venv/bin/lmcache" server --host 127.0.0.1 --port "$1" --http-host 127.0.0.1 --http-port "$2" \
        --l1-size-gb 0.02 --l1-init-size-gb 1 --no-l1-use-lazy --eviction-policy LRU --chunk-size 128 \
        --supported-transfer-mode auto
    ;;
vllm)
    (($# >= 2)) || usage
    # A server that does not answer is given up after 10 s, not after 300: vLLM's own limit of a step is 300 s as well,
    # and it dies at that.
    connector='{"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both",
        "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
        "kv_connector_extra_config": {"lmcache.mp.host": "tcp://127.0.0.1", "lmcache.mp.port": '$2',
            "lmcache.mp.mq_timeout": 10, "lmcache.mp.heartbeat_interval": 2}}'
    port=$1
    shift 2
    VLLM_PYTHON=$venv/bin/python exec bash "$here/real_vllm.sh" serve "$dir" "$port" --no-enable-prefix-caching \
        --kv-transfer-config "$connector" "$@"
    ;;
*) usage ;;
esac
