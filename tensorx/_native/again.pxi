# For ops that keep what their operand was computed from, in place of the operand.

def row_operand(Tensor x):
    """(name, Saved operand) of the row of one operand that computed x and keeps that operand for its gradient, or None."""
    cdef Meta m
    cdef Node n
    cdef Saved s
    if x.meta is None:
        return None
    m = x.meta
    n = m.node
    if n is None or m.base is not None or n.plan is None or n.freed or n.nval != 1 or n.plan.npos != 1 or n.plan.out:
        return None
    if n.plan.nwanted != 1 or n.nums is not None or n.unpacker is not None or n.val[0].n == NULL:
        return None
    if n.val[0].version != version_now(n.val[0].n):
        return None
    s = saved_new(wrap_extra(n.val[0].n), "the operand of " + n.name)
    s.target = n.targets[0]
    return n.name, s
