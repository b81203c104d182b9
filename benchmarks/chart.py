"""Charts as SVG, for light and dark mode and for screen readers."""

from dataclasses import dataclass
from html import escape

WIDTH, LEFT, LONGEST = 840, 218, 440
TOP, ROW, BAR, MARGIN = 94, 40, 20, 24

# A panel of a chart of lines: its place in the grid, and the area of its line.
COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 4, 198, 150
AREA_LEFT, AREA_WIDTH, AREA_TOP, AREA_HEIGHT = 24, 136, 34, 72

STYLE = """
  .paper { fill: #ffffff; stroke: #d5dbd6 }
  text { font: 14px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1d2b22 }
  .heading { font-size: 18px; font-weight: 650 }
  .quiet { font-size: 12.5px; font-weight: 400; fill: #5a6a60 }
  .name { text-anchor: end }
  .figure { font-weight: 600; font-variant-numeric: tabular-nums }
  .aside { text-anchor: end; font-variant-numeric: tabular-nums }
  .axis { stroke: #b4beb7 }
  .other { fill: #8fa3b5 }
  .first { fill: #23804f }
  .line { fill: none; stroke: #23804f; stroke-width: 2 }
  .centred { text-anchor: middle }
  .hollow { fill: url(#hatch); stroke: #8fa3b5; stroke-width: 1.5 }
  .stripe { stroke: #8fa3b5; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #111814; stroke: #2c3830 }
    text { fill: #e6ede8 }
    .quiet { fill: #9aaba0 }
    .axis { stroke: #4a584f }
    .other { fill: #64798c }
    .first { fill: #41b97c }
    .line { stroke: #41b97c }
    .hollow, .stripe { stroke: #64798c }
  }
"""

HATCH = """<defs>
<pattern id="hatch" width="7" height="7"
  patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<line class="stripe" x1="1.5" y1="0" x2="1.5" y2="7"/>
</pattern>
</defs>"""


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: the name of what was measured.
        value: the length of the bar.
        aside: a second figure, as text.
        mark: a restriction that applies to this bar only, as text; the bar is then hatched.

    """

    name: str
    value: float
    aside: str
    mark: str = ""


def bars(heading: str, quiet: str, aside: str, data: list[Bar]) -> str:
    """Return a chart of horizontal bars; the first bar is highlighted.

    Args:
        heading: the title of the chart.
        quiet: an explanation, in small letters.
        aside: the heading of the second figure.
        data: the bars, from top to bottom.

    """
    most = max(bar.value for bar in data)
    foot = TOP + ROW * len(data)
    told = "; ".join(
        f"{bar.name}: {bar.value:,.0f}, {aside} {bar.aside}{bar.mark and f', {bar.mark}'}"
        for bar in data
    )
    drawn = [
        HATCH,
        f'<text class="aside quiet" x="{WIDTH - MARGIN}" y="{TOP - 8}">{escape(aside)}</text>',
    ]
    for number, bar in enumerate(data):
        drawn += _row(bar, TOP + ROW * number, most, first=number == 0)
    drawn.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT}" y1="{TOP}" y2="{foot}"/>')
    return _paper(heading, quiet, told, foot + MARGIN, drawn)


@dataclass(frozen=True)
class Line:
    """One line: its name, and its values from left to right."""

    name: str
    values: list[float]


def lines(heading: str, quiet: str, places: list[str], data: list[Line]) -> str:
    """Return a chart with a panel for each line, whose vertical axis begins at 0.

    Args:
        heading: the title of the chart.
        quiet: an explanation, in small letters.
        places: what the values of each line belong to, from left to right.
        data: the lines.

    """
    told = "; ".join(
        f"{line.name}: "
        + ", ".join(
            f"{value:,.0f} at {place}" for place, value in zip(places, line.values, strict=True)
        )
        for line in data
    )
    drawn = []
    for number, line in enumerate(data):
        row, column = divmod(number, COLUMNS)
        drawn += _panel(line, places, MARGIN + column * PANEL_WIDTH, TOP + row * PANEL_HEIGHT)
    rows = -(-len(data) // COLUMNS)
    return _paper(heading, quiet, told, TOP + rows * PANEL_HEIGHT + MARGIN, drawn)


def _panel(line: Line, places: list[str], left: int, top: int) -> list[str]:
    step = AREA_WIDTH / (len(places) - 1)
    foot = top + AREA_TOP + AREA_HEIGHT
    points = [
        (left + AREA_LEFT + step * number, foot - AREA_HEIGHT * value / max(line.values))
        for number, value in enumerate(line.values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    right = left + PANEL_WIDTH - MARGIN
    drawn = [
        f'<text class="figure" x="{left}" y="{top}">{escape(line.name)}</text>',
        f'<line class="axis" x1="{left}" x2="{right}" y1="{foot}" y2="{foot}"/>',
        f'<polyline class="line" points="{path}"/>',
    ]
    for (x, y), place, value in zip(points, places, line.values, strict=True):
        drawn += [
            f'<circle class="first" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>',
            f'<text class="centred" x="{x:.1f}" y="{y - 9:.1f}">{value:,.0f}</text>',
            f'<text class="centred quiet" x="{x:.1f}" y="{foot + 18}">{escape(place)}</text>',
        ]
    return drawn


def _paper(heading: str, quiet: str, told: str, height: int, drawn: list[str]) -> str:
    """Return a chart: its heading, and what is drawn below it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"',
            f'  viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(heading)}</title>',
            f'<desc id="desc">{escape(told)}.</desc>',
            f"<style>{STYLE}</style>",
            '<rect class="paper" x="0.5" y="0.5" rx="10"',
            f'  width="{WIDTH - 1}" height="{height - 1}"/>',
            f'<text class="heading" x="{MARGIN}" y="36">{escape(heading)}</text>',
            f'<text class="quiet" x="{MARGIN}" y="58">{escape(quiet)}</text>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _row(bar: Bar, top: int, most: float, *, first: bool) -> list[str]:
    long = max(LONGEST * bar.value / most, 2)
    kind = "hollow" if bar.mark else "first" if first else "other"
    base = top + ROW // 2 + 5
    mark = bar.mark and f'<tspan class="quiet" dx="10">{escape(bar.mark)}</tspan>'
    return [
        f'<text class="name{" figure" if first else ""}" x="{LEFT - 14}" y="{base}">',
        f"  {escape(bar.name)}</text>",
        f'<rect class="{kind}" x="{LEFT}" y="{top + (ROW - BAR) // 2}"',
        f'  width="{long:.1f}" height="{BAR}" rx="3"/>',
        f'<text class="figure" x="{LEFT + long + 10:.1f}" y="{base}">{bar.value:,.0f}{mark}</text>',
        f'<text class="aside" x="{WIDTH - MARGIN}" y="{base}">{escape(bar.aside)}</text>',
    ]
