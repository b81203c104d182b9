"""What changed since the last release, and why: a sentence or two for each result.

`harness.write_result` appends them. A release writes them anew (docs/internals/releasing.md).
"""

VERSION = "1.0.0"

TEXTS: dict[str, str] = {
    "changes": """a create takes less CPU time without the feed, too. So the ratios are about
the same.""",
    "creates": """no framework is between the connection and the operation. So the event loop
takes three fifths of the no-op's CPU time for a create (0.97 times before), and 64
connections create 0.89 times as many (0.71). A commit still waits for the disk, which the p99
shows.""",
    "growth": "this page is new.",
    "imports": """an import takes an eighth less CPU time, but a single create takes two
fifths less of the event loop's. So the import leads by less. The figures of 1.0.0 were
measured before its index had names in order, which costs each import more. Beside single
changes, batches are smaller, so these wait less.""",
    "on_postgres": "creates take less CPU time of the event loop, as on SQLite.",
    "overload": """a create takes less CPU time, so the service creates more before it refuses
any.""",
    "page": """the page asks the service about the rows before it asks the person, so they are
sent twice. It has no stream of changes, and reloads its list every five seconds.""",
    "peers": """creates take less CPU time, so each ratio is larger. Granian is new: the same
operations and store on its server, which limits neither slow readers nor the memory.""",
    "random_ids": """a create takes less CPU time, but a random id still changes pages of its
own. So random ids are faster than before, and consecutive ids gained more.""",
    "reads": """a lookup takes two thirds of the CPU time: no framework is between. A page of
plants takes as much in SQLite as before.""",
    "searches": """a search takes about a tenth more CPU time, because it counts the bytes
that it examines: no page costs more than thirty creates. A lookup takes less, so it is
further from a search. The figures of 1.0.0 were measured before its index had names in order,
which made it larger.""",
    "slow_connections": """the server keeps slow connections as before, and the ratios are
about the same.""",
    "transfer": """the command takes an eighth less CPU time. The figures of 1.0.0 were
measured before its index had names in order, and beside an index of the shell that had only
the words of names. Now both have the same.""",
    "workers": "one worker takes less CPU time for a create, so there is less to divide.",
}
