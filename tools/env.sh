# shellcheck shell=bash
# Sourced by bench/run, tests/run and .ci/run: from a fresh machine to a virtual
# environment with tensorx in it.  Needs bash 3.2 (macOS) and nothing else.
#
#   TENSORX_PYTHON=...   the Python to use (default: python3, if it is 3.10 or newer,
#                        else the newest python3.x found)
#   TENSORX_NO_INSTALL=1 never call the system's package manager

say() { printf '== %s\n' "$*"; }
fail() { printf '== %s\n' "$*" >&2; exit 1; }

started_at=$SECONDS
since() { printf '%d s' $((SECONDS - ${1:-$started_at})); }

have() { command -v "$1" >/dev/null 2>&1; }

# as_root COMMAND...: as root, or by sudo if that works here.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        sudo "$@"
    else
        return 1
    fi
}

# apt_install WHY PACKAGE...: 0 when everything is there afterwards.
apt_install() {
    local why=$1 begun=$SECONDS package missing=""
    shift
    have apt-get && have dpkg-query || return 1
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    local line="apt-get install -y --no-install-recommends$missing"
    say "$why: $line"
    if [ -n "${TENSORX_NO_INSTALL:-}" ]; then
        say "TENSORX_NO_INSTALL is set: not installed"
        return 1
    fi
    # shellcheck disable=SC2086
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends \
            $missing >>"$log" 2>&1; then
        say "installed in $(since "$begun")"
    else
        tail -n 5 "$log"
        say "could not install; as root, run: $line"
        return 1
    fi
}

python_ok() {
    [ -n "$1" ] && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in "${TENSORX_PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$name" ] && have "$name" && python_ok "$name"; then
            command -v "$name"
            return 0
        fi
        if [ -n "${TENSORX_PYTHON:-}" ]; then
            return 1
        fi
    done
    return 1
}

# What a build needs beside Python itself, asked of the machine and not of a list of
# packages: a Python from elsewhere than the system brings its own headers.
can_make_venv() { "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; }
has_headers() {
    "$1" -c 'import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' >/dev/null 2>&1
}
has_compiler() {
    local dir
    dir=$(mktemp -d) || return 1
    printf '#include <stdlib.h>\n#include <pthread.h>\nint main(void) { return 0; }\n' >"$dir/a.c"
    ${CC:-cc} -o "$dir/a" "$dir/a.c" >/dev/null 2>&1
    local status=$?
    rm -rf "$dir"
    return $status
}

# prepare_system: a Python, its headers and a C compiler; sets $python.
prepare_system() {
    local wanted=""
    python=$(find_python) || python=""
    if [ "$(uname)" = Darwin ]; then
        # python3 of a fresh Mac is a stub that opens a dialog: look before calling it.
        xcode-select -p >/dev/null 2>&1 || fail "no compiler; run: xcode-select --install"
        [ -n "$python" ] ||
            fail "no Python 3.10 or newer; get one from python.org, Homebrew (brew install python) or uv"
        return 0
    fi
    if [ -z "$python" ]; then
        [ -z "${TENSORX_PYTHON:-}" ] || fail "TENSORX_PYTHON=$TENSORX_PYTHON is not a Python 3.10 or newer"
        wanted="python3 python3-venv python3-dev"
    else
        can_make_venv "$python" || wanted="$wanted python3-venv"
        has_headers "$python" || wanted="$wanted python3-dev"
    fi
    has_compiler || wanted="$wanted gcc libc6-dev"
    if [ -n "$wanted" ]; then
        # shellcheck disable=SC2086
        apt_install "needed to build" $wanted ca-certificates || true
        python=$(find_python) || fail "no Python 3.10 or newer found"
        can_make_venv "$python" || fail "$python has no venv module (Debian: python3-venv)"
        has_headers "$python" || fail "$python has no header files (Debian: python3-dev)"
        has_compiler || fail "no working C compiler (Debian: gcc libc6-dev)"
    fi
}

# What the compiled parts are made of; a change of it asks for a new install.
fingerprint() {
    "$1" - <<'PY'
import hashlib, os, sys
digest = hashlib.sha256(sys.version.encode())
names = ["setup.py", "pyproject.toml"]
for root, dirs, files in os.walk("tensorx"):
    dirs[:] = sorted(d for d in dirs if d != "__pycache__")
    inside = root.split(os.sep)
    names += [
        os.path.join(root, f)
        for f in sorted(files)
        if f.endswith((".pyx", ".pxd", ".pxi", ".c", ".h", ".m")) or (f.endswith(".py") and "ops" in inside)
    ]
for name in names:
    digest.update(name.encode() + b"\0")
    with open(name, "rb") as f:
        digest.update(hashlib.sha256(f.read()).digest())
for name in ("CC", "CFLAGS", "LDFLAGS", "ARCHFLAGS", "TENSORX_QUICK", "TENSORX_SANITIZE", "TENSORX_DEBUG"):
    digest.update(f"{name}={os.environ.get(name)}".encode())
print(digest.hexdigest())
PY
}

# install_into VENV EXTRAS: VENV exists afterwards and has tensorx, editable, with EXTRAS
# ("" or "test,dev"); quick when nothing changed.  Sets $venv_python.
install_into() {
    local venv=$1 extras=$2 begun=$SECONDS print stamp extra todo=""
    venv_python=$venv/bin/python
    if ! python_ok "$venv_python" ||
        [ "$("$venv_python" -c 'import sys; print(sys.version)')" != "$("$python" -c 'import sys; print(sys.version)')" ]; then
        say "making $venv with $("$python" --version 2>&1)"
        rm -rf "$venv"
        "$python" -m venv "$venv" || fail "could not make $venv"
    fi
    print=$(fingerprint "$venv_python") || fail "could not read the sources"
    stamp=$venv/.tensorx-installed
    if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$print" ]; then
        for extra in $(printf '%s' "$extras" | tr ',' ' '); do
            grep -qx "$extra" "$stamp" || todo=yes
        done
    else
        rm -f "$stamp"
        todo=yes
    fi
    if [ -z "$todo" ]; then
        return 0
    fi
    say "installing tensorx${extras:+ with [$extras]} into $venv: up to 3 minutes when everything has to be compiled"
    TENSORX_BUILD_DIR=$root/build/$(basename "$venv") \
        "$venv_python" -m pip install --disable-pip-version-check --quiet \
        -e "$root${extras:+[$extras]}" || fail "pip install failed"
    [ -f "$stamp" ] || printf '%s\n' "$print" >"$stamp"
    printf '%s' "$extras" | tr ',' '\n' >>"$stamp"
    echo >>"$stamp"
    say "installed in $(since "$begun")"
}

# Works on a copy when the checkout cannot be written.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
if [ ! -w "$root" ]; then
    copy=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/tensorx/checkout
    mkdir -p "$copy" 2>/dev/null && [ -w "$copy" ] || copy=$(mktemp -d)/tensorx
    say "$root is read-only: working on a copy in $copy"
    mkdir -p "$copy"
    rm -rf "$copy/tensorx" "$copy/tests" "$copy/bench" # keeps .venv and build
    (cd "$root" && tar cf - --exclude=./.git --exclude=./.venv --exclude=./build .) |
        (cd "$copy" && tar xf -) || fail "could not copy"
    root=$copy
fi
cd "$root" || exit 1
mkdir -p build
log=$root/build/apt.log
