#!/usr/bin/env bash
# Install the real systems that the tests marked `real` talk to, and say aloud which of them are not to be had here.
# Usage: install_real_parts.sh       with CI=true a part that is missing at the end is an error
# Debian's packages need root or a sudo without password; vLLM and LMCache go into $SLO_AGENT_VLLM_DIR (default .cache/vllm).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
vllm_dir=${SLO_AGENT_VLLM_DIR:-$root/.cache/vllm}
export DEBIAN_FRONTEND=noninteractive PATH=$PATH:/usr/sbin:/sbin

# Command on the left, the package that brings it on the right.
declare -A package_of=(
    [prometheus]=prometheus [promtool]=prometheus [prometheus-alertmanager]=prometheus-alertmanager
    [amtool]=prometheus-alertmanager [chromium]=chromium [buildah]=buildah [debootstrap]=debootstrap
    [shellcheck]=shellcheck [systemd-analyze]=systemd
)
missing_commands() {
    local command
    for command in "${!package_of[@]}"; do command -v "$command" > /dev/null || echo "$command"; done
}

install_packages() {
    local as_root=() policy=/usr/sbin/policy-rc.d mine="" status=0
    [[ $(id -u) == 0 ]] || as_root=(sudo -n)
    command -v apt-get > /dev/null || { echo "there is no apt-get here"; return 1; }
    "${as_root[@]}" true 2> /dev/null || { echo "installing packages needs root, or sudo without a password"; return 1; }
    # The tests start their own servers on ports of their own: Debian must not start its own beside them.
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" > /dev/null
        "${as_root[@]}" chmod 755 "$policy"
        mine=yes
    fi
    "${as_root[@]}" apt-get update -q &&
        "${as_root[@]}" apt-get install -q -y --no-install-recommends "$@" || status=$?
    [[ -z $mine ]] || "${as_root[@]}" rm -f "$policy"
    return "$status"
}

install_vllm() {
    [[ $(uname -sm) == "Linux x86_64" || $(uname -sm) == "Linux aarch64" ]] || { echo "no vLLM for $(uname -sm)"; return 1; }
    bash "$here/real_vllm.sh" install "$vllm_dir"
}

mapfile -t packages < <(for command in $(missing_commands); do echo "${package_of[$command]}"; done | sort -u)
if ((${#packages[@]})); then
    echo "real parts: installing ${packages[*]}"
    install_packages "${packages[@]}" < /dev/null || true
fi
if ! bash "$here/real_vllm.sh" installed "$vllm_dir"; then
    echo "real parts: installing vLLM into $vllm_dir (about 2 minutes, 2 GB)"
    install_vllm < /dev/null || true
fi
if bash "$here/real_vllm.sh" installed "$vllm_dir" && ! bash "$here/real_lmcache.sh" installed "$vllm_dir"; then
    echo "real parts: installing LMCache beside it"
    bash "$here/real_lmcache.sh" install "$vllm_dir" < /dev/null || true
fi

mapfile -t lacking < <(missing_commands | sort)
bash "$here/real_vllm.sh" installed "$vllm_dir" || lacking+=(vllm)
bash "$here/real_lmcache.sh" installed "$vllm_dir" || lacking+=(lmcache)
if ((${#lacking[@]})); then
    {
        echo "################################################################################"
        echo "## NOT HERE, so their tests are SKIPPED: ${lacking[*]}"
        echo "## (see above for why they could not be installed)"
        echo "################################################################################"
    } >&2
    [[ ${CI:-} != true ]] || { echo "CI=true: a missing real part is a failure" >&2; exit 1; }
fi
