"""Every code that an error answer can carry, with its status: the one list that code, schema and docs share."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means: the status it comes with, and words for whoever reads it."""

    status: int
    detail: str


REQUEST_CODES: Final[Mapping[str, Code]] = MappingProxyType(
    {
        "bad_request": Code(400, "The request is not one that this service understands."),
        "body_too_old": Code(
            400, "It happened longer ago than keys are remembered: it may be a duplicate."
        ),
        "body_unreadable": Code(400, "The body is not one that this kind of source sends."),
        "idempotency_key_missing": Code(400, "The header Idempotency-Key is needed."),
        "unauthorized": Code(401, "A valid key is needed: Authorization: Bearer <key>."),
        "signature_invalid": Code(401, "The signature is wrong, missing, or of another time."),
        "scope_missing": Code(403, "The key may not make this call."),
        "not_found": Code(404, "There is no such thing, or the key may not see it."),
        "method_not_allowed": Code(405, "The path has no such method; see Allow."),
        "request_timeout": Code(408, "The request did not arrive in time."),
        "lease_lost": Code(409, "The lease token no longer holds; nothing was changed."),
        "already_sealed": Code(409, "This attempt has sealed another set; nothing was changed."),
        "already_decided": Code(409, "Something else was decided before; that stays."),
        "integrity": Code(409, "What is stored is not what was sealed: nothing was let go."),
        "not_held": Code(409, "Nothing of the turn waits for a decision."),
        "revisions_exhausted": Code(409, "It was sent back as often as its queue allows."),
        "already_signalled": Code(409, "The turn was told something else under this name before."),
        "parks_exhausted": Code(409, "The turn has parked as often as it may; the lease holds."),
        "payload_changed": Code(409, "This is not what is to be decided; look at it again."),
        "too_many_signals": Code(409, "The turn was told as much as a turn may be told."),
        "turn_ended": Code(409, "No attempt of the turn follows that could be told anything."),
        "not_cancellable": Code(409, "It has arrived, or waits for a decision about its set."),
        "not_redrivable": Code(409, "It has not failed, or has nothing left to send again."),
        "conversation_live": Code(
            409, "Something of it has not ended: cancel it as well, or wait."
        ),
        "conversation_sending": Code(409, "Something of it is being sent right now: try again."),
        "not_resendable": Code(409, "It was not delivered: there is nothing to repeat."),
        "not_resolvable": Code(409, "Its outcome is not unknown."),
        "purged": Code(410, "It ended, and was removed: its time was over, or it was erased."),
        "body_too_large": Code(413, "The body is larger than this call takes."),
        "content_encoding_unsupported": Code(415, "Bodies are taken without a content encoding."),
        "content_type_unsupported": Code(415, "The body must be application/json in UTF-8."),
        "idempotency_key_reused": Code(422, "The key was used before for another body."),
        "invalid_content": Code(422, "Several things are wrong with the content; see errors."),
        "rate_limited": Code(429, "The queue takes no more at the moment; see Retry-After."),
        "headers_too_large": Code(431, "The headers are too long or too many."),
        "internal_error": Code(500, "Something went wrong here; it was logged."),
        "database_unavailable": Code(503, "The database is not available at the moment."),
        "overloaded": Code(503, "There are too many requests at the moment; nothing was done."),
        "queue_full": Code(503, "The queue is full; nothing was done."),
        "source_not_ready": Code(503, "The source cannot take anything at the moment."),
        "queue_not_configured": Code(503, "The turn's queue is not configured here."),
    }
)

# All of these come with 422, as the only problem or in `errors`.
CONTENT_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "base64_invalid": "not base64",
        "content_type_invalid": "no content type that can stand here",
        "content_type_missing": "payload_base64 needs a content_type",
        "conversation_invalid": "1 to 255 bytes without control characters",
        "conversation_not_allowed": "the queue keeps messages in their turn's conversation",
        "cursor_invalid": "a next_cursor of this list, with the same filter and key, is needed",
        "decision_unknown": "approve, reject or revise",
        "delay_ambiguous": "delay_seconds or not_before, not both",
        "depth_exceeded": "the turn is too far down a chain of follow-ups",
        "destination_missing": "the message names no destination, and its source has no reply_to",
        "destination_unknown": "there is no such destination for this queue",
        "field_not_allowed": "the destination takes no such field in a payload",
        "header_name_invalid": "not the name of a header",
        "header_not_allowed": "the destination does not allow this header",
        "header_repeated": "a header is given twice",
        "header_reserved": "this header is not the agent's to set",
        "header_value_invalid": "visible ASCII only",
        "header_value_too_long": "the header's value is too long",
        "filter_missing": 'a filter, or all of it: {"all": true}',
        "id_invalid": "not an id of this kind",
        "idempotency_key_invalid": "one header of 1 to 255 visible ASCII characters",
        "json_invalid": "not JSON",
        "json_not_utf8": "not UTF-8",
        "json_too_deep": "nested too deeply",
        "message_unknown": "not a message of the held set, or named twice",
        "messages_not_allowed": "only an approval takes messages",
        "metadata_invalid": "a JSON object that every reader takes",
        "metadata_too_large": "the metadata is too large",
        "name_invalid": "1 to 255 bytes without control characters",
        "not_supported": "not built yet: leave it out",
        "number_too_large": "a number is too large or too long",
        "on_deadline_unknown": "escalate, cancel or send",
        "order_unknown": "strict, or left out",
        "out_of_range": "outside of the allowed range",
        "payload_ambiguous": "payload or payload_base64, not both",
        "payload_missing": "payload or payload_base64 is needed",
        "payload_unreadable": "not what its content type says",
        "queue_unknown": "there is no such queue",
        "reply_expired": "what the source left to answer with has ended",
        "request_id_invalid": "16 characters or more, at most 255 bytes, without control characters",
        "request_id_reused": "the request was made before with other parameters",
        "required": "this field is needed",
        "set_too_large": "the payloads of the set are too large together",
        "state_not_for_verb": "the verb does nothing to what is in this state",
        "state_unknown": "there is no such state",
        "text_empty": "there is nothing to send",
        "text_invalid": "text without NUL, and not too long",
        "text_too_long": "the destination takes no text of this length",
        "time_invalid": "not an RFC 3339 time",
        "time_zone_missing": "a time needs its zone",
        "to_invalid": "the destination has no recipient of this form",
        "to_missing": "nobody says to whom: no to, no fixed recipient, no conversation that it could answer in",
        "to_not_allowed": "the destination does not allow this recipient: its to_allow does not name it",
        "too_many": "too many items",
        "too_many_headers": "too many headers",
        "unknown_field": "unknown or repeated",
        "usage_invalid": "fields are words, totals are numbers from 0",
        "verb_unknown": "there is no such verb here",
        "wrong_type": "the wrong type of value",
    }
)

ALL_CODES: Final = tuple(sorted({*REQUEST_CODES, *CONTENT_CODES}))
