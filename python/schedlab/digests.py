"""Values as the store and its keys have them: equal values as equal texts, and times as texts."""

import hashlib
import json
from datetime import UTC, datetime, timedelta


def canonical_json(value: object) -> str:
    """One text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest_of(value: object) -> str:
    """64 hex digits, equal for equal JSON values."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def timestamp(ago_ns: int = 0) -> str:
    """Now, or so long ago, in UTC to the millisecond."""
    then = datetime.now(UTC) - timedelta(microseconds=ago_ns / 1e3)
    return then.isoformat(timespec="milliseconds")
