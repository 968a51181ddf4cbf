"""Where a text stands in the database, as itself or as bytes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.database import Admin


async def places(admin: "Admin", canary: str) -> set[str]:
    """The columns in which a text stands, each as `table.column`."""
    columns = await admin.fetch(
        "select table_name, column_name from information_schema.columns where table_schema = 'sink'"
    )
    found = set()
    for table, column in columns:
        there = await admin.fetchval(
            f"select exists (select from sink.{table} where position($1 in {column}::text) > 0"
            f" or position($2 in {column}::text) > 0)",
            canary,
            canary.encode().hex(),
        )
        if there:
            found.add(f"{table}.{column}")
    return found
