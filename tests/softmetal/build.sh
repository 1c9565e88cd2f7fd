#!/usr/bin/env bash
# Builds the Metal stand-in, libsoftmetal.so, and the bridge against it,
# libtensorx_bridge.so, into a cache folder.  Quick when nothing has changed.
# The last line of the output is the path of the bridge (of the stand-in, when
# there is no bridge.m).
#
#   build.sh [--sanitize=address|thread] [--bridge=FILE.m] [--cache=FOLDER]
#
# Needs clang, GNUstep base and binutils: on Debian
#   apt-get install clang lld libgnustep-base-dev     (plus libclang-rt-NN-dev for sanitizers)
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bridge=$here/../../tensorx/metal/bridge.m
sanitize=
cache=
for argument in "$@"; do
    case $argument in
    --sanitize=address | --sanitize=thread) sanitize=${argument#*=} ;;
    --bridge=*) bridge=${argument#*=} ;;
    --cache=*) cache=${argument#*=} ;;
    *)
        sed -n '2,11p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
    esac
done

fail() {
    echo "softmetal: $*" >&2
    exit 1
}

clang=${CLANG:-}
if [ -z "$clang" ]; then
    for name in clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
        if command -v "$name" >/dev/null; then
            clang=$(command -v "$name")
            break
        fi
    done
fi
[ -n "$clang" ] || fail "no clang found; on Debian: apt-get install clang lld libgnustep-base-dev"
ld=$(command -v ld.bfd || command -v ld || command -v ld.lld) || fail "no linker found (binutils)"
cpp=$(command -v cpp || true) # GNU's, when gcc is there
if [ -n "$cpp" ] && ! "$cpp" --version 2>/dev/null | grep -q 'Free Software Foundation'; then
    cpp=
fi
command -v gnustep-config >/dev/null || fail "no GNUstep found; on Debian: apt-get install libgnustep-base-dev"

usable() { mkdir -p "$1" 2>/dev/null && [ -w "$1" ]; }
if [ -z "$cache" ]; then
    cache=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/tensorx-softmetal
    if ! usable "$cache"; then
        cache=${TMPDIR:-/tmp}/tensorx-softmetal-$(id -u)
        usable "$cache" && [ -O "$cache" ] || cache=$(mktemp -d)
        chmod 700 "$cache"
    fi
fi
usable "$cache" || fail "cannot write to $cache"

version=$("$clang" --version | head -n 1)
digest() { sha256sum | cut -c1-16; }
id=$({ echo "$version $clang $ld $cpp $(uname -m)"; cd "$here" && cat build.sh src/* msl/* include/*/*.h include/*.h; } | digest)
folder=$cache/$id

exec 9>"$cache/lock"
command -v flock >/dev/null && flock 9

common=(-O2 -g1 -fPIC -Wall -Wextra -fvisibility=hidden -fno-omit-frame-pointer)
objc_flags() {
    local gcc_include
    gcc_include=$(for d in /usr/lib/gcc/*/*/include; do [ -e "$d/objc/objc.h" ] && echo "$d"; done | sort -V | tail -n 1)
    [ -n "$gcc_include" ] || fail "no Objective-C runtime headers found (libobjc-NN-dev)"
    objc=(-x objective-c -std=gnu11 -fblocks -fobjc-runtime=gcc -fobjc-exceptions -fexceptions
        -D_NATIVE_OBJC_EXCEPTIONS -fconstant-string-class=NSConstantString
        -DGNUSTEP -DGNUSTEP_BASE_LIBRARY=1 -DGNU_RUNTIME=1 -I "$here/include")
    # Only the include folders of gnustep-config: they differ between releases.
    local word
    for word in $(gnustep-config --objc-flags); do
        case $word in
        -I/*) objc+=(-isystem "${word#-I}") ;;
        esac
    done
    objc+=(-idirafter "$gcc_include")
}

if [ ! -e "$folder/done" ]; then
    echo "softmetal: building the stand-in with $version" >&2
    rm -rf "$folder"
    mkdir -p "$folder/kernels" "$folder/o"
    cp -r "$here/msl" "$folder/msl"
    objc_flags
    define=(-DSM_CLANG="\"$clang\"" -DSM_LD="\"$ld\"" -DSM_CPP="\"$cpp\"" -DSM_VERSION="\"$id\"")
    compile() {
        case $1 in
        *.m) "$clang" "${common[@]}" "${objc[@]}" "${define[@]}" -c "$1" -o "$2" ;;
        *) "$clang" -x c++ -std=c++17 "${common[@]}" -pthread "${define[@]}" -c "$1" -o "$2" ;;
        esac
    }
    running=()
    for source in "$here"/src/*.cpp "$here"/src/*.m; do
        compile "$source" "$folder/o/$(basename "$source").o" &
        running+=($!)
        if [ ${#running[@]} -ge "$(nproc)" ]; then
            wait "${running[0]}" || fail "compilation failed"
            running=("${running[@]:1}")
        fi
    done
    for pid in "${running[@]}"; do
        wait "$pid" || fail "compilation failed"
    done
    # Symbols bind inside first: GNUstep has a blocks runtime of its own.
    "$clang" -shared -pthread -Wl,-Bsymbolic -Wl,-z,defs -o "$folder/libsoftmetal.so.tmp" "$folder"/o/*.o \
        -L/usr/local/lib -lgnustep-base -lobjc -lstdc++ -lm -ldl -lrt
    mv "$folder/libsoftmetal.so.tmp" "$folder/libsoftmetal.so"
    rm -rf "$folder/o"
    touch "$folder/done"
    # Old builds and kernels nobody asked for in two weeks.
    find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name "$id" -mtime +14 -exec rm -rf {} + 2>/dev/null || true
    find "$cache" -path '*/kernels/*' -type f -atime +14 -delete 2>/dev/null || true
fi
touch "$folder"

if [ ! -e "$bridge" ]; then
    echo "$folder/libsoftmetal.so"
    exit 0
fi
bridge=$(cd "$(dirname "$bridge")" && pwd)/$(basename "$bridge")
bridge_folder=$(dirname "$bridge")
bridge_id=$({ echo "$sanitize $bridge"; cat "$bridge" "$bridge_folder"/*.h "$bridge_folder"/*.m 2>/dev/null || true; } | digest)
library=$folder/bridge-$bridge_id/libtensorx_bridge.so
if [ ! -e "$library" ]; then
    objc_flags
    mkdir -p "$(dirname "$library")"
    extra=()
    case $sanitize in
    address) extra=(-fsanitize=address -shared-libasan) ;;
    thread) extra=(-fsanitize=thread) ;;
    esac
    "$clang" "${common[@]}" "${objc[@]}" ${extra[@]+"${extra[@]}"} -fvisibility=default -I "$bridge_folder" -c "$bridge" \
        -o "$library.o"
    objects=("$library.o")
    if [ "$sanitize" = thread ]; then
        "$clang" -O1 -fPIC -Wall -Wextra -c "$here/src/tsan_ignore.c" -o "$library.ignore.o"
        objects+=("$library.ignore.o")
    fi
    # The stand-in comes before GNUstep, for its blocks runtime.
    "$clang" -shared -pthread ${extra[@]+"${extra[@]}"} -o "$library.tmp" "${objects[@]}" -L "$folder" -lsoftmetal \
        -Wl,-rpath,"$folder" -lgnustep-base -lobjc -lm
    rm -f "${objects[@]}"
    mv "$library.tmp" "$library"
fi
if [ "$sanitize" = address ]; then
    echo "LD_PRELOAD=$("$clang" -print-file-name="libclang_rt.asan-$(uname -m).so")"
    # A symbolizer that inherits LD_PRELOAD outlives its parent and holds its pipes.
    symbolizer=$("$clang" -print-prog-name=llvm-symbolizer)
    if [ -x "$symbolizer" ]; then
        printf '#!/bin/sh\nunset LD_PRELOAD ASAN_OPTIONS\nexec "%s" "$@"\n' "$symbolizer" >"$folder/llvm-symbolizer"
        chmod +x "$folder/llvm-symbolizer"
        symbols=external_symbolizer_path=$folder/llvm-symbolizer
    else
        symbols=symbolize=0
    fi
    echo "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0:$symbols"
elif [ "$sanitize" = thread ]; then
    echo "TSAN_OPTIONS=handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:detect_deadlocks=0"
fi
echo "$library"
