"""What is configured, whether it can work, and whether everything around the service is well. Changes nothing."""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from app.command import EXIT_FAILED, EXIT_USAGE, read_settings, run_to_the_end

if TYPE_CHECKING:
    from app.command import Commands
    from app.settings import Settings

REPLICAS_MAX = 10_000


def add(commands: "Commands", common: argparse.ArgumentParser) -> None:
    told = argparse.ArgumentParser(add_help=False)
    told.add_argument("--json", action="store_true", help="for programs")

    config = commands.add_parser("config", help="show or check the configuration")
    verbs = config.add_subparsers(required=True, metavar="VERB")
    show = verbs.add_parser(
        "show", parents=[common, told], help="every key as it holds, without secrets"
    )
    show.set_defaults(run=_show)
    check = verbs.add_parser(
        "check", parents=[common, told], help="everything that is wrong with it, a line each"
    )
    check.set_defaults(run=_check)

    doctor = commands.add_parser(
        "doctor", parents=[common, told], help="is everything well: disk, database, destinations"
    )
    doctor.add_argument("--no-network", action="store_true", help="connect to the database alone")
    doctor.add_argument(
        "--replicas", type=_replicas, default=1, help="how many processes there are to be"
    )
    doctor.set_defaults(run=_doctor)


def _show(arguments: argparse.Namespace) -> int:
    from app.settings import show_settings

    settings = read_settings(arguments)
    shown = show_settings(settings, overrides={"config": arguments.config})
    if arguments.json:
        keys = [{"key": one.path, "value": one.value, "from": one.origin} for one in shown]
        print(json.dumps({"keys": keys}, indent=2))
        return 0
    for one in shown:
        value = "none" if one.value is None else json.dumps(one.value, ensure_ascii=False)
        print(f"{one.path} = {value}" + ("" if one.origin == "default" else f"  # {one.origin}"))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from app.core import build_intakes, build_routes
    from app.doctor.configuration import warnings
    from app.settings import SettingsError, silences

    faults, told = [], []
    try:
        settings = read_settings(arguments)
        # What can be served and is not to be put into service.
        faults = list(silences(settings))
        told = list(warnings(settings, build_routes(settings), build_intakes(settings)))
    except SettingsError as error:
        faults = list(error.faults)
    if arguments.json:
        listed = {
            name: [{"path": one.path, "code": one.code, "detail": one.detail} for one in found]
            for name, found in (("faults", faults), ("warnings", told))
        }
        print(json.dumps({"good": not faults, **listed}, indent=2))
    else:
        for fault in faults:
            print(fault, file=sys.stderr)
        for one in told:
            print(f"warning: {one}")
        if not faults:
            print("The configuration can be used.")
    return EXIT_USAGE if faults else 0


def _doctor(arguments: argparse.Namespace) -> int:
    from app.core import InvalidConfiguration
    from app.doctor import Examined, examine
    from app.doctor.patient import open_patient
    from app.doctor.report import document, is_well, lines

    settings = _of_dev(read_settings(arguments))

    async def work() -> list[Examined]:
        async with open_patient(
            settings, network=not arguments.no_network, replicas=arguments.replicas
        ) as patient:
            return await examine(patient)

    try:
        found = run_to_the_end(work())
    except InvalidConfiguration as error:
        print(f"sinksweep: {error}", file=sys.stderr)
        return EXIT_USAGE
    if arguments.json:
        print(json.dumps(document(found), indent=2))
    else:
        print("\n".join(lines(found)))
    return 0 if is_well(found) else EXIT_FAILED


def _of_dev(settings: "Settings") -> "Settings":
    """With the database of a `sinksweep dev` that runs on this folder, where none is configured."""
    from app.dev.server import DESCRIPTION, for_dev

    if settings.database_url is not None:
        return settings
    try:
        told = json.loads((settings.data_dir / DESCRIPTION).read_text(encoding="utf-8"))
        url = str(told["database_url"])
    except (OSError, ValueError, LookupError, TypeError):
        return settings
    print(f"The database is that of `sinksweep dev` in {settings.data_dir}.", file=sys.stderr)
    return for_dev(settings, url)


def _replicas(text: str) -> int:
    count = int(text)
    if not 1 <= count <= REPLICAS_MAX:
        message = f"1 to {REPLICAS_MAX} are possible"
        raise argparse.ArgumentTypeError(message)
    return count
