#!/usr/bin/env bash
# limit.sh SECONDS GRACE COMMAND...: run COMMAND for at most SECONDS; then SIGTERM,
# and SIGKILL after GRACE more seconds.  Exit status: the command's, 124 when the
# time was up, 137 when it had to be killed.
#
# This is the last layer against a hang: it works when the process can neither run
# Python nor any of its own threads.  In the foreground, so that Ctrl-C and the
# terminal still reach the command.  macOS has no coreutils: there Python does it.
set -u
seconds=$1 grace=$2
shift 2
for tool in ${TENSORX_LIMIT_TOOL:-timeout gtimeout}; do
    if command -v "$tool" >/dev/null 2>&1; then
        exec "$tool" --foreground -k "$grace" "$seconds" "$@"
    fi
done
exec "${PYTHON:-python3}" -c '
import signal, subprocess, sys
seconds, grace, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides what Ctrl-C means
child = subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
try:
    status = child.wait(seconds)
except subprocess.TimeoutExpired:
    child.terminate()
    try:
        child.wait(grace)
        status = 124
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        status = 137
sys.exit(status if status >= 0 else 128 - status)
' "$seconds" "$grace" "$@"
