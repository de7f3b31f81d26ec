"""Equal values as equal texts, for digests and for keys."""

from __future__ import annotations

import json


def canonical_json(value: object) -> str:
    """One text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
