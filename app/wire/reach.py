"""Whether somebody listens at a place: a connection that is opened under the client's rules, and closed again."""

import asyncio
import ssl
from typing import Final

from app.wire.dialing import dial
from app.wire.resolution import Refused, VettedResolver
from app.wire.target import Target

_WORDS: Final = {
    "address_denied": (
        "its name leads to a private address, which destinations may not reach",
        "If it is meant to be inside, add its network to network.allow.",
    ),
    "dns_failed": (
        "its name could not be resolved",
        "Check the host in its url, and this machine's resolver.",
    ),
    "resolver_busy": (
        "its name could not be looked up in time",
        "Look at this machine's resolver.",
    ),
    "connection_refused": (
        "nobody listens there",
        "Check that the receiver runs, and the port in its url.",
    ),
    "tls_failed": (
        "TLS failed: its certificate is not valid for its name, or not trusted here",
        "Look at the receiver's certificate chain, and at this machine's certificate authorities.",
    ),
    "starttls_not_offered": (
        "it offers no STARTTLS, and a mail is not sent in the clear",
        "Set security to tls, with the port that speaks it from the first byte.",
    ),
    "login_not_offered": (
        "it offers neither PLAIN nor LOGIN to log in with",
        "Look at what the server's EHLO answers, or leave the login out.",
    ),
    "malformed_answer": (
        "what answers there speaks something else",
        "Check the port, and whether it wants TLS from the first byte.",
    ),
    "connection_cut": (
        "it hung up on us",
        "Check the port, and what the other side's log says of us.",
    ),
    "timeout": (
        "no connection in time",
        "Look for a firewall between: nothing comes back, not even a refusal.",
    ),
}
_UNREACHED: Final = (
    "no connection could be made",
    "Look at the network between this machine and the receiver.",
)


def words_of(reason: str) -> tuple[str, str]:
    """What a reason why nobody was reached means, and what to do about it, in plain words."""
    return _WORDS.get(reason.removesuffix("_before_send"), _UNREACHED)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# One line of a protocol of lines, and more than any of them allows.
LINE_BYTES_MAX: Final = 4096


async def reach(
    target: Target, *, resolver: VettedResolver, tls: ssl.SSLContext, timeout_seconds: float
) -> str | None:
    """Connect, with TLS where the scheme asks for it, and send nothing; None, or a stable word for what went wrong.

    Every address was vetted, and exactly these are connected to.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            _, writer = await connect(target.host, target.port, resolver=resolver)
            try:
                if target.scheme == "https":
                    await upgrade(writer, host=target.host, tls=tls)
            finally:
                # Waiting for the other side's end of it could take for ever.
                writer.transport.abort()
    except TimeoutError:
        return "timeout"
    except Refused as refused:
        return refused.reason
    return None


async def connect(host: str, port: int, *, resolver: VettedResolver) -> Streams:
    """Open a connection to the first of a host's vetted addresses that takes one; raises `Refused`."""
    connection = await dial(host, port, resolver=resolver)
    try:
        return await asyncio.open_connection(sock=connection, limit=LINE_BYTES_MAX)
    except BaseException:
        connection.close()
        raise


async def upgrade(writer: asyncio.StreamWriter, *, host: str, tls: ssl.SSLContext) -> None:
    """Go on with TLS, with somebody who has a certificate for `host`; raises `Refused`."""
    try:
        await writer.start_tls(tls, server_hostname=host)
    except OSError:
        # An error of TLS is one of the system, too.
        raise Refused("tls_failed") from None
