"""Whether somebody listens at a place: a connection that is opened under the client's rules, and closed again."""

import asyncio
import ssl

from app.wire.resolution import Refused, VettedResolver
from app.wire.target import Target


async def reach(
    target: Target, *, resolver: VettedResolver, tls: ssl.SSLContext, timeout_seconds: float
) -> str | None:
    """Connect, with TLS where the scheme asks for it, and send nothing; None, or a stable word for what went wrong.

    Every address was vetted, and exactly these are connected to.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _connect(target, resolver=resolver, tls=tls)
    except TimeoutError:
        return "timeout"
    except Refused as refused:
        return refused.reason


async def _connect(target: Target, *, resolver: VettedResolver, tls: ssl.SSLContext) -> str | None:
    reason = "connection_failed"
    for address in await resolver.resolve(target.host, target.port):
        try:
            _, writer = await asyncio.open_connection(address["host"], target.port)
        except ConnectionRefusedError:
            reason = "connection_refused"
        except OSError:
            reason = "connection_failed"
        else:
            try:
                if target.scheme == "https":
                    await writer.start_tls(tls, server_hostname=target.host)
            except OSError:
                # Somebody listens; an error of TLS is one of the system, too.
                return "tls_failed"
            finally:
                # Waiting for the other side's end of it could take for ever.
                writer.transport.abort()
            return None
    return reason
