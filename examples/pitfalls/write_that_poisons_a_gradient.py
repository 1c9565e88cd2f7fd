"""The trap: writing in place to a value that the gradient needs, or paying for a copy without noticing.

Elsewhere x.add_(1) after y = x * w is an error that does not say which line wrote; libraries without in-place ops allocate a new
buffer for x = x + 1 exactly then, and nothing tells.

tensorx: the error names both lines and both versions; x = x + 1 reuses the buffer when it may and says why when it may not.
"""

from _devices import check, devices

import tensorx as tx

N = 1 << 22  # 16 MiB of float32

for device in devices():
    print(device)
    x = tx.ones(3, device=device)
    w = tx.full((3,), 2.0, device=device).requires_grad_()
    y = x * w
    x.add_(1.0)
    try:
        y.sum().backward()
    except tx.GradientError as error:
        check("version 0" in str(error) and "version 1" in str(error) and "add_" in str(error), f"named: {error}")
    check(w.grad is None, "nothing was added to w.grad")

    leaf = tx.ones(3, device=device).requires_grad_()
    try:
        leaf.add_(1.0)
    except tx.InplaceError as error:
        check("no_grad" in str(error), f"a leaf: {error}")
    with tx.no_grad():
        leaf.add_(1.0)
    check(leaf.tolist() == [2, 2, 2] and leaf.requires_grad, "under no_grad it is written")

    for saved in (True, False):
        x = tx.ones(N, device=device)
        w = tx.full((N,), 2.0, device=device)
        if saved:
            w.requires_grad_()
        y = x * w
        tx.eval(y)
        check(x.is_unique() is not saved, f"x.is_unique() is {not saved} when y {'needs' if saved else 'does not need'} x")
        with tx.memory.record() as r:
            x = x + 1.0
        expected = 4 * N if saved else 0
        check(r.bytes == expected and x[0].item() == 2.0, f"x = x + 1 allocates {r.bytes >> 20} MiB")
        # How to see why: the recorder's reason.
        if saved:
            check("for the gradient of w" in r.blocks[0].reason, f"and says why: {r.blocks[0].reason}")
            y.sum().backward()
            check(w.grad[:3].tolist() == [1, 1, 1], "the gradient used the old x")
