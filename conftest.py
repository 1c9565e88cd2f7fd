"""Names that the examples in docstrings may use. Fixtures of the tests: tests/conftest.py."""

import pytest


@pytest.fixture(autouse=True)
def _names_of_examples(request):
    # Looked up lazily: tests that start no example need neither.
    if request.node.__class__.__name__ == "DoctestItem":
        import numpy as np

        import tensorx as tx

        request.getfixturevalue("doctest_namespace").update(np=np, tx=tx)
