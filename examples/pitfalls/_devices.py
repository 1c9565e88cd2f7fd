"""What the scripts of this folder share: the devices to run on."""

import tensorx as tx


def devices():
    """cpu, and metal where this machine has one."""
    found = ["cpu"]
    if tx.metal.is_available():
        found.append("metal")
    else:
        print(f"(metal is left out: {tx.metal.unavailable_reason()})")
    return found


def check(condition, what):
    """Prints one line, and stops where the promise does not hold."""
    print(f"  {'ok ' if condition else 'NO '} {what}")
    if not condition:
        raise SystemExit(1)
