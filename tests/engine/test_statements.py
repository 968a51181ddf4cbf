"""Every statement fits the schema, and the loader lets no call name anything but exactly its parameters."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import app.engine
from app.engine.statements import Statement, load, parse

if TYPE_CHECKING:
    from app.engine.database import Pool

FILES = sorted(Path(app.engine.__file__).parent.glob("*.sql"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_every_statement_can_be_prepared_by_the_service(pool: "Pool", file: Path) -> None:
    statements = load(str(file.with_suffix(".py")))
    assert statements
    async with pool.acquire() as connection:
        for statement in statements.values():
            prepared = await connection.prepare(statement.text)
            assert len(prepared.get_parameters()) == len(statement.parameters), statement.name


def test_every_module_with_statements_has_its_file_and_no_name_is_used_twice() -> None:
    names = [name for file in FILES for name in load(str(file.with_suffix(".py")))]
    assert len(names) == len(set(names))
    for file in FILES:
        assert "load(__file__)" in file.with_suffix(".py").read_text(encoding="utf-8")


def test_every_statement_is_used() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in FILES[0].parent.glob("*.py"))
    for file in FILES:
        for name in load(str(file.with_suffix(".py"))):
            assert f'SQL["{name}"]' in sources, f"{name} of {file.name} is never run"


def _parsed(text: str) -> Statement:
    return parse(f"-- name: it\n{text}\n")["it"]


def test_names_are_numbered_in_the_order_of_their_first_use() -> None:
    statement = _parsed("select :b, :a, :b;")
    assert (statement.text, statement.parameters) == ("select $1, $2, $1", ("b", "a"))


@pytest.mark.parametrize(
    "untouched",
    [
        "select x::text",
        "select array[1]::text []",
        "select ':name'",
        "select 'it''s :name'",
        "select a[1:2]",
        "select '2020-01-01 10:20:30'",
    ],
)
def test_casts_literals_and_slices_are_left_alone(untouched: str) -> None:
    statement = _parsed(untouched)
    assert (statement.text, statement.parameters) == (untouched, ())


def test_comments_are_dropped_with_the_names_in_them() -> None:
    statement = _parsed("-- about :this\nselect :that -- and :more")
    assert (statement.text.strip(), statement.parameters) == ("select $1", ("that",))


def test_a_cast_parameter_keeps_its_cast() -> None:
    assert _parsed("select :ids::uuid []").text == "select $1::uuid []"


def test_a_script_is_split_at_its_names() -> None:
    statements = parse("-- a preface\n\n-- name: one\nselect 1;\n\n-- name: two\nselect 2;\n")
    assert {name: statement.text for name, statement in statements.items()} == {
        "one": "select 1",
        "two": "select 2",
    }


@pytest.mark.parametrize(
    ("values", "wrong"),
    [({}, "a, b"), ({"a": 1}, "b"), ({"a": 1, "b": 2, "c": 3}, "c"), ({"a": 1, "c": 3}, "b, c")],
)
async def test_a_call_must_name_exactly_the_parameters(
    pool: "Pool", values: dict[str, object], wrong: str
) -> None:
    statement = _parsed("select :a::int + :b::int as total")
    async with pool.acquire() as connection:
        with pytest.raises(TypeError, match=f"it: parameters missing or unknown: {wrong}$"):
            await statement.rows(connection, **values)
        with pytest.raises(TypeError):
            await statement.run(connection, **values)
        (row,) = await statement.rows(connection, b=2, a=1)
    assert row["total"] == 3


def test_what_locks_by_names_sorts_them_the_same_in_every_database() -> None:
    """Parameters sort as the database collates, columns as C: two orders of one thing are a deadlock."""
    statements = [one for file in FILES for one in load(str(file.with_suffix(".py"))).values()]
    for statement in statements:
        if "on conflict" not in statement.text:
            continue
        for order in re.findall(r"order by ([^\n]*)", statement.text):
            for part in order.split(","):
                column = part.strip().removeprefix("item.").split(" ")[0].split(".")[-1]
                if column in {"scope", "key", "queue", "conversation", "destination", "principal"}:
                    assert 'collate "C"' in part, f"{statement.name}: {part}"
