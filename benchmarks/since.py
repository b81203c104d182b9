"""What changed since the last release, and why: a sentence for each result.

`harness.write_result` appends them. A release writes them anew (docs/internals/releasing.md).
"""

VERSION = "1.0.0"

TEXTS: dict[str, str] = {}
