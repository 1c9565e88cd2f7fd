"""The trap: an in-place op that hangs on an operand that shares memory with its destination.

Elsewhere an in-place op locks its destination for writing and its operands for reading. Give it a clone of the destination, or
two rows of one matrix, and it waits for itself: no error, no CPU time, for ever.

tensorx: operands may overlap in any way. What overlaps the destination is copied before; disjoint views are not.
"""

from _devices import check, devices

import tensorx as tx


class AddInto(tx.InplaceOp):
    name = "add-into"
    elementwise = True  # position i of x depends on position i of y only: an exact alias needs no copy

    def cpu(self, x, y):
        x += y

    metal = tx.metal.kernel("x += y", "x, y", elementwise=True, name="add-into")

    def backward(self, ctx, grad):
        return grad, grad


class OnlyCpu(tx.InplaceOp):
    name = "add-into"

    def cpu(self, x, y):
        x += y


for device in devices():
    print(device)
    op = AddInto()
    x, y = tx.asarray([1.0, 2.0, 3.0, 4.0], device=device), tx.asarray([10.0, 20.0, 30.0, 40.0], device=device)
    with tx.memory.measure() as m:
        op(x, y)
    check(x.tolist() == [11, 22, 33, 44] and m.bytes == 0, "x += y, 0 bytes")
    with tx.memory.measure() as m:
        op(x, x.alias())
    check(x.tolist() == [22, 44, 66, 88] and m.bytes == 0, "x += its own alias, 0 bytes, at once")

    matrix = tx.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    with tx.memory.measure() as m:
        op(matrix[0], matrix[1])
    check(matrix.tolist() == [[4, 6], [3, 4]] and m.bytes == 0, "row 0 += row 1 of one matrix, 0 bytes")

    z = tx.arange(6, device=device).astype(tx.float32)
    with tx.memory.record() as r:
        op(z[1:], z[:-1])
    check(z.tolist() == [0, 1, 3, 5, 7, 9], "shifted views: as if the operand was copied first")
    # How to see what happened: the recorder names the line, the bytes and the reason.
    check([b.reason for b in r.blocks] == ["overlaps the destination"], f"one temporary, explained: {r.lines()[0]}")

    if device == "metal":
        try:
            OnlyCpu()(x, x)
        except tx.MissingKernelError as error:
            check("add-into" in str(error) and "metal" in str(error), f"no body for a device: {error}")
