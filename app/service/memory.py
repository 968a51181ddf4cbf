"""What the collector of cycles looks at: what requests leave behind, and not the program itself.

A hundred thousand objects of modules, routes and schemas live as long as the process. Looking through them stops
everything for a tenth of a second, each time enough has come and gone.
"""

import gc
from typing import Final

# Containers that must have come and not gone before there is a look: some megabytes at most.
NEW_MAX: Final = 10_000


def keep_what_is_here() -> None:
    """Say that everything there is now stays. To be called once, when a process is ready for its work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_MAX, *gc.get_threshold()[1:])
