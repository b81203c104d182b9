"""What changed since the last release, and why: a sentence or two for each result.

`harness.write_result` appends them. A release writes them anew (docs/internals/releasing.md).
"""

VERSION = "1.0.0"

TEXTS: dict[str, str] = {
    "adversary": """the rows with a value of each parameter are new. Of these, 34 miss their bar:
searches that examine many plants and return few or none, and exports of a tag or a search. A create
takes less CPU time, so the ratios to it are larger.""",
    "changes": """a create takes less CPU time without the feed, too. So the ratios are about
the same.""",
    "creates": """no framework is between the connection and the operation. So the event loop
takes two thirds of the CPU time for a create ([measured](before.md) beside 1.0.0). A commit
still waits for the disk, which the p99 shows.""",
    "growth": "this page is new.",
    "imports": """an import takes as much CPU time as with 1.0.0 ([measured](before.md)), and a
single create less, so the import leads by less. The figures of 1.0.0 were measured before its
index had names in order. Beside single changes, batches are smaller, so these wait less.""",
    "on_postgres": "creates take less CPU time of the event loop, as on SQLite.",
    "overload": """a create takes less CPU time, so the service creates more before it refuses
any.""",
    "page": """the page asks the service about the rows before it asks the person, so they are
sent twice. It has no stream of changes, and reloads its list every five seconds.""",
    "peers": """creates take less CPU time, so each ratio is larger. Granian is new: the same
operations and store on its server, which limits neither slow readers nor the memory.""",
    "random_ids": """a create takes less CPU time, but a random id still changes pages of its
own. So random ids are faster than before, and consecutive ids gained more.""",
    "reads": """a lookup takes seven tenths of the CPU time ([measured](before.md) beside 1.0.0):
no framework is between. A page takes as much in SQLite as before.""",
    "searches": """a search takes an eighth less CPU time, and a lookup three tenths less
([measured](before.md) beside 1.0.0). The figures of 1.0.0 were measured before each commit
merged a few pages of the index, which makes no commit slow. But a search reads more segments,
until the service is idle and merges them.""",
    "slow_connections": """the server keeps slow connections as before, and the ratios are
about the same.""",
    "transfer": """the command takes as much CPU time as with 1.0.0 ([measured](before.md)). The
figures of 1.0.0 were measured before its index had names in order, and beside an index of the
shell that had only the words of names. Now both have the same.""",
    "workers": "one worker takes less CPU time for a create, so there is less to divide.",
}
