"""What must be true of inbound: what was acknowledged is kept as it came, once, and nothing else is kept."""

from collections import Counter
from collections.abc import Iterator

from tests.history.history import CLOCK_SECONDS_MAX, History, Post
from tests.history.rows import KeptInbound


def no_accept_is_lost(history: History) -> Iterator[str]:
    """What was answered 2xx is there under that handle, byte for byte."""
    inbound = {one.id: one for one in history.rows.inbound}
    keys = {(one.scope, one.key): one for one in history.rows.keys}
    for post in history.posts:
        answer = post.accepted
        if answer is None:
            continue
        name = f"{post.asked.scope} {post.asked.key}"
        known = keys.get((post.asked.scope, post.asked.key))
        kept = inbound.get(answer.inbound or "")
        if known is None or kept is None:
            yield f"{name} was acknowledged as {answer.inbound} and is lost"
        elif (known.inbound, known.turn, kept.turn) != (kept.id, kept.turn, answer.turn):
            yield f"{name} was acknowledged as {answer.inbound} of {answer.turn} and is {known}"
        elif not answer.duplicate and _content(post) != _kept_content(kept):
            yield f"{name} was sent as {_content(post)} and is kept as {_kept_content(kept)}"


def _content(post: Post) -> tuple[str, str, str | None]:
    return post.asked.body_base64, post.asked.content_type, post.asked.conversation


def _kept_content(kept: KeptInbound) -> tuple[str, str, str | None]:
    return kept.body_base64, kept.content_type, kept.conversation


def a_key_has_one_handle(history: History) -> Iterator[str]:
    """All acknowledgements of a key give the same ids, one of them as new, and one inbound stands behind it."""
    for name, posts in history.posts_by_key.items():
        answers = [post.accepted for post in posts if post.accepted]
        handles = {(answer.inbound, answer.turn) for answer in answers}
        if len(handles) > 1:
            yield f"{name} was given {sorted(map(str, handles))}"
        if sum(answer.duplicate is False for answer in answers) > 1:
            yield f"{name} was new more than once"
    for inbound, count in Counter(one.inbound for one in history.rows.keys).items():
        if count > 1:
            yield f"{inbound} stands behind {count} keys"


def nothing_is_invented(history: History) -> Iterator[str]:
    """Each kept inbound has a key, with which a provider began to send exactly these bytes before.

    Or a seal committed it for later.
    """
    names = {one.inbound: (one.scope, one.key) for one in history.rows.keys}
    promised = {one.inbound for one in history.rows.follow_ups if one.state == "accepted"}
    for kept in history.rows.inbound:
        name = names.get(kept.id)
        if kept.id in promised and name is not None:
            continue
        if name is None:
            yield f"{kept.id} of {kept.turn} has no key"
            continue
        posts = history.posts_by_key.get(name, [])
        if not any(
            history.database_time(post.asked.at) <= kept.received_at + CLOCK_SECONDS_MAX
            and _content(post) == _kept_content(kept)
            for post in posts
        ):
            yield f"{kept.id} of {name} was never sent as it is kept"


def refused_means_absent(history: History) -> Iterator[str]:
    """A key that nobody got anything but a 4xx for is not kept."""
    kept = {(one.scope, one.key) for one in history.rows.keys}
    for name, posts in history.posts_by_key.items():
        if name in kept and all(post.status and post.status // 100 == 4 for post in posts):
            yield f"{name} was refused and is kept"


def a_repeat_is_welcome(history: History) -> Iterator[str]:
    """The same request again is no error; another body under a key of the plain API is one."""
    inbound = {one.id: one for one in history.rows.inbound}
    for known in history.rows.keys:
        kept = inbound.get(known.inbound)
        if kept is None:
            continue
        for post in history.posts_by_key.get((known.scope, known.key), []):
            same = _content(post) == _kept_content(kept)
            status = post.status
            if same and status is not None and status // 100 == 4 and status != 429:
                yield f"{known.key} was sent again and answered {status}"
            if not same and post.accepted and known.scope.startswith("queue/"):
                yield f"{known.key} was acknowledged with another body"


RULES = (
    no_accept_is_lost,
    a_key_has_one_handle,
    nothing_is_invented,
    refused_means_absent,
    a_repeat_is_welcome,
)
