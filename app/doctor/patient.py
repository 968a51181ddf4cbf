"""What is examined: the configuration, and the database as the service and as its login see it."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app import VERSION
from app.core import Intake, Route, build_intakes, build_routes, database_options
from app.engine.database import DatabaseOptions, open_pool
from app.settings import Settings
from app.wire.addresses import AddressPolicy
from app.wire.client import GuardedClient

if TYPE_CHECKING:
    from app.engine.database import Pool

APPLICATION = "sinksweep doctor"


@dataclass(frozen=True, slots=True)
class Patient:
    """Everything that a check may look at. `replicas` is how many processes there are to be."""

    settings: Settings
    routes: Mapping[str, Route]
    options: DatabaseOptions
    # As the role that works, and as the login, which sees more of what others do.
    service: "Pool"
    login: "Pool"
    client: GuardedClient | None
    replicas: int
    intakes: Mapping[str, Intake]


@contextlib.asynccontextmanager
async def open_patient(
    settings: Settings, *, network: bool, replicas: int
) -> AsyncGenerator[Patient]:
    """Open what checks need; nothing is connected to yet. Without `network` no destination is met.

    Raises what is wrong with the configuration.
    """
    options = replace(database_options(settings), pool_max=2)
    routes, intakes = build_routes(settings), build_intakes(settings)
    async with contextlib.AsyncExitStack() as stack:
        service = await stack.enter_async_context(open_pool(options, application_name=APPLICATION))
        login = await stack.enter_async_context(
            open_pool(replace(options, role=""), application_name=APPLICATION)
        )
        client = None
        if network:
            client = await stack.enter_async_context(
                GuardedClient(
                    AddressPolicy(settings.network.allow), user_agent=f"Sinksweep/{VERSION}"
                )
            )
        yield Patient(settings, routes, options, service, login, client, replicas, intakes)
