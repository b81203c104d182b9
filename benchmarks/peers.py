"""How fast are durable creates, compared with alternatives, and what does a 2xx mean in each?

Each request stores one plant, with a bearer token, over 64 persistent connections. The servers are
measured alternately, each starts on an empty database, and each ratio is the median of the
ratios of the rounds. `make bench-peers` installs the alternatives.
"""

import sys
from dataclasses import dataclass, field
from statistics import median

from chart import Bar, bars
from go_peers import GO, GO_GROUPS
from harness import RESULTS, Load, spread, table, write_result, wrk
from javascript_peers import BUN, JSON_SERVER
from peer import Peer
from promises import CREATES, KILL_AFTER_SECONDS, Kills, Syncs, kills, refusals, resident_mib, syncs
from python_peers import DATASETTE, DJANGO, FASTAPI, GRANIAN, LITESTAR, PLANTSTORE

PEERS = (PLANTSTORE, GRANIAN, GO_GROUPS, BUN, GO, FASTAPI, LITESTAR, DJANGO, DATASETTE, JSON_SERVER)
ROUNDS = 5
SECONDS = 5
CONNECTIONS = 64


@dataclass
class Seen:
    """The measurements of a server."""

    loads: list[Load] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)

    def figure(self, name: str) -> float:
        """Return the median of a figure of the loads."""
        return float(median([getattr(load, name) for load in self.loads]))


@dataclass(frozen=True)
class Promise:
    """What the responses of a server mean."""

    kills: Kills
    syncs: Syncs | None
    conflict: int
    wrong_token: int

    @property
    def kept(self) -> bool:
        """Whether each response waited for the disk, as far as this was measured."""
        return not self.kills.lost and (self.syncs is None or self.syncs.least > 0)


def measure(peer: Peer, seen: Seen, number: int) -> None:
    with peer.serving() as (server, _):
        what = {"target": peer.target, "body": peer.body}
        wrk(server, CONNECTIONS, 1, first_id=10**12, **what)
        seen.loads.append(wrk(server, CONNECTIONS, SECONDS, **what))
        seen.mib.append(resident_mib(server))
    print(f"round {number}: {peer.name}: {seen.loads[-1].rate:,.0f}/s", file=sys.stderr)


def promise(peer: Peer) -> Promise:
    conflict, wrong_token = refusals(peer)
    found = Promise(kills(peer), syncs(peer), conflict, wrong_token)
    print(f"{peer.name}: {found}", file=sys.stderr)
    return found


def speeds(seen: dict[Peer, Seen]) -> str:
    rows = []
    for peer, its in seen.items():
        pairs = zip(seen[PLANTSTORE].loads, its.loads, strict=True)
        ratios = [ours.rate / theirs.rate for ours, theirs in pairs]
        rows.append(
            [
                peer.name,
                f"{its.figure('rate'):,.0f}",
                "-" if peer is PLANTSTORE else spread(ratios, 1),
                f"{its.figure('p50_ms'):.1f}",
                f"{its.figure('p99_ms'):.1f}",
                str(sum(load.failed for load in its.loads)),
                f"{median(its.mib):.0f}",
            ]
        )
    header = ["server", "creates/s", "ours ÷ theirs", "p50 ms", "p99 ms", "failed", "MiB"]
    return table(header, rows)


def promises(promised: dict[Peer, Promise]) -> str:
    rows = [
        [
            peer.name,
            _waited(its.syncs),
            "not measured" if its.syncs is None else f"{its.syncs.median:g}",
            f"{its.kills.acknowledged:,}",
            f"{its.kills.lost:,}",
            str(its.conflict),
            str(its.wrong_token),
        ]
        for peer, its in promised.items()
    ]
    header = [
        "server",
        "each 2xx after a sync",
        "syncs a create",
        "acknowledged",
        "lost by kill -9",
    ]
    return table([*header, "stored id", "wrong token"], rows)


def _waited(its: Syncs | None) -> str:
    if its is None:
        return "not measured"
    return "yes" if its.least else "**no**"


def notes(here: list[Peer], missing: list[Peer]) -> str:
    lines = [f"- {peer.name}: {peer.versions()}. Settings: {peer.setting}." for peer in here]
    lines += [f"- {peer.name} was left out: its program is not installed." for peer in missing]
    return "\n".join(lines)


def chart(seen: dict[Peer, Seen], promised: dict[Peer, Promise]) -> str:
    first, *others = seen
    others.sort(key=lambda peer: -seen[peer].figure("rate"))
    return bars(
        "Creates per second",
        f"One plant per request with a token, over {CONNECTIONS} connections. Longer is better.",
        "p99, ms",
        [
            Bar(
                peer.name,
                seen[peer].figure("rate"),
                f"{seen[peer].figure('p99_ms'):,.1f}",
                "" if promised[peer].kept else "responds before the plant is on the disk",
            )
            for peer in (first, *others)
        ],
    )


def main() -> None:
    here = [peer for peer in PEERS if peer.program.exists()]
    missing = [peer for peer in PEERS if peer not in here]
    promised = {peer: promise(peer) for peer in here}
    seen = {peer: Seen() for peer in here}
    for number in range(1, ROUNDS + 1):
        for peer in here:
            measure(peer, seen[peer], number)
    text = f"""# Creates, compared with alternatives

![Creates per second of each server](peers.svg)

{speeds(seen)}

Each server was one process, measured with {CONNECTIONS} connections in {ROUNDS} rounds of
{SECONDS} seconds. The figures are medians; the ratios also show the minimum and the maximum. MiB is
the memory at the end of the load: the PSS of all processes of the server, which counts shared
memory once. Failed requests got a status of 400 or above, or took more than two seconds.

{promises(promised)}

A sync is `fsync`, `fdatasync`, `msync` or `sync_file_range` of a file of the database. It counts if
it began after the request was sent and ended before the response was read. This was measured with
{CREATES} creates, one after another. Acknowledged and lost are plants: eight connections created
plants, and the server was killed {len(KILL_AFTER_SECONDS)} times with `kill -9`. A lost plant was
acknowledged, but was not in the file afterwards. These two figures do not measure speed. A kill
loses only data that the kernel had not yet received; a power failure also loses data that was not
synced. The last two columns are the statuses for another plant with a stored id, and for a create
with a wrong token.

{notes(here, missing)}"""
    write_result("peers", text)
    (RESULTS / "peers.svg").write_text(chart(seen, promised), encoding="utf-8")


if __name__ == "__main__":
    main()
