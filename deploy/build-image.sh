#!/usr/bin/env bash
# The agent's container image, with whatever is here: docker, or buildah; and where no registry can be reached, on a base
# that debootstrap makes of Debian's packages. buildah needs root here (chroot isolation: no daemon, no privileges inside).
# Usage: build-image.sh [build]          the image vllm-slo-agent:VERSION and :latest
#        build-image.sh run WORDS...     run `slo-agent WORDS...` in it, on this machine's network
# Environment: BASE_IMAGE   another base than python:3.11-slim; "debootstrap" for a base of Debian's packages
#              DEBIAN_MIRROR, DEBIAN_SUITE   where and what debootstrap takes (bookworm)
#              IMAGE_DIR    where buildah keeps its storage (.cache/image)
#              ENGINE       docker or buildah; default: docker where its daemon answers
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
work=${IMAGE_DIR:-$root/.cache/image}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
name=localhost/vllm-slo-agent
default_base=docker.io/library/python:3.11-slim
debian_base=localhost/slo-agent-base:${DEBIAN_SUITE:-bookworm}

has_docker() { command -v docker > /dev/null && timeout 10 docker info > /dev/null 2>&1; }
engine=${ENGINE:-$(if has_docker; then echo docker; else echo buildah; fi)}

# vfs copies layers whole: slower than overlay, but it works on every file system and inside containers.
buildah_options=(--storage-driver "${STORAGE_DRIVER:-vfs}" --root "$work/storage" --runroot "$work/run")
in_buildah() { buildah "${buildah_options[@]}" "$@"; }

prepare_buildah() {
    if ! command -v buildah > /dev/null; then
        echo "neither docker nor buildah is here. Install one: apt-get install buildah" >&2
        exit 1
    fi
    mkdir -p "$work"
    # What is built here is taken as it is; what is pulled is checked by its digest alone.
    echo '{"default": [{"type": "insecureAcceptAnything"}]}' > "$work/policy.json"
}

can_pull() {
    timeout 60 buildah "${buildah_options[@]}" pull -q --signature-policy "$work/policy.json" "$1" > /dev/null 2>&1
}

make_debian_base() {
    in_buildah inspect --type image "$debian_base" > /dev/null 2>&1 && return
    if ! command -v debootstrap > /dev/null; then
        echo "no registry answers, and debootstrap is not here. Install it: apt-get install debootstrap" >&2
        exit 1
    fi
    echo "image: a base of Debian's packages (no registry, or none wanted)"
    rm -rf "$work/base"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "${DEBIAN_SUITE:-bookworm}" "$work/base" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} > "$work/debootstrap.log" 2>&1 ||
        { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
    (cd "$work/base" && rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/{doc,man,locale}/*)
    local container
    container=$(in_buildah from --signature-policy "$work/policy.json" scratch)
    in_buildah add -q "$container" "$work/base" / > /dev/null
    in_buildah commit -q --signature-policy "$work/policy.json" --rm "$container" "$debian_base" > /dev/null
    rm -rf "$work/base"
}

build() {
    if [[ $engine == docker ]]; then
        docker build --build-arg "BASE_IMAGE=${BASE_IMAGE:-$default_base}" -t "$name:$version" -t "$name:latest" "$root"
        return
    fi
    prepare_buildah
    local base=${BASE_IMAGE:-$default_base} certificates=/etc/ssl/certs/ca-certificates.crt options=()
    if [[ $base == debootstrap ]] || ! can_pull "$base"; then
        make_debian_base
        base=$debian_base
    fi
    # Behind a proxy with a certificate of its own: the build trusts what this machine trusts, the image does not.
    [[ -e $certificates ]] && options+=(--volume "$certificates:$certificates:ro")
    in_buildah bud -q --isolation chroot --network host --pull-never --signature-policy "$work/policy.json" \
        --format docker --build-arg "BASE_IMAGE=$base" "${options[@]}" -t "$name:$version" -t "$name:latest" "$root"
    echo "image: $name:$version on $base, in $work/storage"
}

# As the manifests run it: no root, a root file system that cannot be written, /tmp in memory, the host's network. A plain
# chroot in a mount namespace of its own, since `buildah run` answers Ctrl-C by killing what it runs.
run() {
    if [[ $engine == docker ]]; then
        exec docker run --rm --network host --read-only --tmpfs /tmp "$name:$version" "$@"
    fi
    prepare_buildah
    if ! running=$(in_buildah from --pull-never --signature-policy "$work/policy.json" "$name:$version" 2> /dev/null); then
        echo "there is no image in $work/storage yet: make image" >&2
        exit 1
    fi
    trap 'in_buildah rm "$running" > /dev/null' EXIT
    local folder user environment
    folder=$(in_buildah mount "$running")
    user=$(in_buildah inspect --type container --format '{{.OCIv1.Config.User}}' "$running")
    mapfile -t environment < <(
        in_buildah inspect --type container --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$running" | grep '='
    )
    # shellcheck disable=SC2016  # expanded by the inner shell
    unshare --mount bash -euc '
        folder=$1 user=$2
        shift 2
        mount --bind "$folder" "$folder"
        mount -o remount,bind,ro "$folder"
        mount -t proc proc "$folder/proc"
        mount --rbind /dev "$folder/dev"
        mount -t tmpfs -o size=32m,mode=1777 tmpfs "$folder/tmp"
        cd "$folder"
        exec chroot --userspec="$user" --groups= "$folder" "$@"
    ' run "$folder" "$user" /usr/bin/env -i "${environment[@]}" slo-agent "$@"
}

case ${1:-build} in
build) build ;;
run)
    shift
    run "$@"
    ;;
*)
    sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
