"""Any JSON value that the plane accepts, for properties."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

texts = st.text(max_size=20).filter(lambda text: "\x00" not in text)
numbers = (
    st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            0.0,
            -0.0,
            1.0,
            1e15,
            1e16,
            1e22,
            1e300,
            -1e300,
            5e-324,
            2.0**53,
            2.0**63,
            -(2.0**63),
            1e19,
            2.0**64,
            2**63,
            2**64 - 1,
            0.1,
        ]
    )
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)
