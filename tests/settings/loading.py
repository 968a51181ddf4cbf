"""How the tests read a configuration: a file in the working folder, and variables they name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from app.settings import Settings, SettingsError, load_settings

CANARY: Final = "canary-2718281828"


def load(
    text: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    assumed: Mapping[str, object] | None = None,
) -> Settings:
    if text:
        Path("sinksweep.toml").write_text(text)
    return load_settings(overrides=overrides or {}, environ=environ or {}, assumed=assumed)


def faults(text: str = "", *, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load(text, environ=environ)
    assert CANARY not in str(caught.value)
    assert len(str(caught.value).splitlines()) == len(caught.value.faults)
    return {fault.path: fault.code for fault in caught.value.faults}


def fault_line(text: str = "", *, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(text, environ=environ)
    (fault,) = caught.value.faults
    return str(fault)
