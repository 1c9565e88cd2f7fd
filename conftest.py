"""Names that the examples in docstrings may use. Fixtures of the tests: tests/conftest.py."""

import pytest


@pytest.fixture(autouse=True)
def _examples(request):
    # Looked up lazily: tests that are no example need neither.
    if request.node.__class__.__name__ != "DoctestItem":
        yield
        return
    import numpy as np

    import tensorx as tx

    request.getfixturevalue("doctest_namespace").update(np=np, tx=tx)
    with tx.deferred(True):  # examples print what memory costs; eagerly it costs more
        yield
