"""The trap: a copy() that shares memory on the GPU.

Elsewhere a snapshot of the weights, taken by copy() before training, changes along with the weights on Metal and stays put on
the CPU. A training script then reports a largest change of 0 for a model that learns, and a rollback restores nothing.

tensorx: what is a copy is a copy and what is a view is a view, the same on every device.
"""

from _devices import check, devices

import tensorx as tx

for device in devices():
    print(device)
    w = tx.nn.Parameter(tx.ones(4, device=device))
    snapshots = {
        "copy()": w.detach().copy(),
        "clone()": w.detach().clone(),
        "w * 1 + 0": w.detach() * 1.0 + 0.0,
        "to('cpu')": w.detach().to("cpu"),
        "numpy(copy=True)": w.detach().numpy(copy=True),
        "tolist()": w.tolist(),
    }
    with tx.no_grad():
        w.copy_(w * 0.5)
    check(w.tolist() == [0.5] * 4, "the write in place reached w")
    for name, snapshot in snapshots.items():
        values = snapshot if isinstance(snapshot, list) else snapshot.tolist()
        check(values == [1.0] * 4, f"the snapshot by {name} is unchanged")

    original = tx.zeros(4, device=device)
    c = original.copy()
    c.slice_set(tx.ones(2, device=device), 0, 0)
    check(c.tolist() == [1, 1, 0, 0] and original.tolist() == [0] * 4, "writing to a copy leaves the original alone")

    with tx.no_grad():
        w.copy_(snapshots["copy()"])
    check(w.tolist() == [1.0] * 4, "copy_(snapshot) restores w bit for bit")

    # How to see that you are not hit: ask whether two tensors share storage.
    view, alias = w.detach()[1:], w.detach().alias()
    check(tx.shares_storage(w, view) and tx.shares_storage(w, alias), "views and aliases say that they share")
    check(not tx.shares_storage(w, snapshots["copy()"]), "a copy says that it does not")
