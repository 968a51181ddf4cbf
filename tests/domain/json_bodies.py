"""Bodies to draw: JSON in every spelling, and what almost is JSON."""

import json

from hypothesis import strategies as st

spaces = st.text(" \t\r\n", max_size=4)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    """Draw one JSON value in some spelling, without white space around it."""
    comma, colon = draw(spaces) + "," + draw(spaces), draw(spaces) + ":" + draw(spaces)
    return json.dumps(
        draw(values),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.none() | spaces),
        separators=(comma, colon),
    )


near_json = st.text('[]{}",:\\u0123456789abcdDeE+-. \n\ttrufalsn\ud83d\ude00é', max_size=60)
near_surrogates = st.lists(
    st.sampled_from(["\\ud83d", "\\uDe00", "\\\\", "\\n", "u", "\\u0041", "d83d", "x", "\\ude0"]),
    max_size=8,
).map(lambda parts: f'["{"".join(parts)}"]')
