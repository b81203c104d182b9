"""What changed since the last release, and why: a sentence or two for each result.

`harness.write_result` appends them. A release writes them anew (docs/internals/releasing.md).
"""

VERSION = "1.0.0"

TEXTS: dict[str, str] = {
    "creates": """no framework is between the connection and the operation. So the event loop takes
half of the no-op's CPU time for a create (1.14 times before), and 64 connections create 0.91 times
as many (0.62). A commit still waits for the disk, which the p99 shows.""",
    "growth": "this page is new.",
    "imports": """an import also makes a checksum of each plant, and its change set. Beside single
changes, its batches are smaller, so these are delayed less.""",
    "on_postgres": "creates take less CPU time of the event loop, as on SQLite.",
    "page": """the page asks before an import, and reads workbooks in a worker. It has no stream of
changes, and reloads its list every five seconds.""",
    "peers": """creates take less CPU time, so each ratio is larger. Granian is new: the same
operations and store on its server, which limits neither slow readers nor the memory.""",
    "reads": """a lookup takes two thirds of the CPU time: no framework is between. A page of
plants takes as much in SQLite as before.""",
    "transfer": "one statement stores a batch of an import, with all its indexes.",
}
