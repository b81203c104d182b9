"""The alerts and the dashboard, checked with a real Prometheus that scrapes a real service."""

import contextlib
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plantstore.plants import NewPlant
from support.command import output_of
from support.fronts import free_port, program, running_program
from support.postgres import wait_until
from support.service import Service

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
RULES = [
    rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/plantstore.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

CSV = {"Content-Type": "text/csv"}

# What Grafana replaces in an expression.
VARIABLES = {"$job": "plantstore", "$instance": ".*", "$__rate_interval": "10s"}


def test_each_alert_fires_when_it_should() -> None:
    cases = yaml.safe_load((ALERTS.parent / "alerts_test.yml").read_text("utf-8"))["tests"]

    output_of("promtool", "check", "rules", ALERTS)
    output_of("promtool", "test", "rules", "alerts_test.yml", cwd=ALERTS.parent)

    tested = {case["alertname"] for test in cases for case in test["alert_rule_test"]}
    assert tested == {rule["alert"] for rule in RULES}


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    """Yield a service on PostgreSQL, which has all metrics."""
    with Service(tmp_path, database=request.getfixturevalue("databases").new()) as service:
        yield service


@pytest.fixture
def prometheus(tmp_path: Path, service: Service) -> Iterator[int]:
    """Run a Prometheus server that scrapes the service every second; yield its port."""
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": "plantstore",
                "authorization": {"credentials": service.token("metrics:read", name="scraper")},
                "static_configs": [{"targets": [f"127.0.0.1:{service.port}"]}],
            }
        ],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    options = ("--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}")
    folder = "--storage.tsdb.path=metrics"  # Debian's default is the folder of the machine's own
    with running_program(tmp_path, port, program("prometheus"), *options, folder):
        yield port


def has_data(prometheus: int, expression: str) -> bool:
    """Return whether an expression has a result now."""
    query = urllib.parse.urlencode({"query": expression})
    url = f"http://127.0.0.1:{prometheus}/api/v1/query?{query}"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
        return bool(json.load(answer)["data"]["result"])
    return False  # it does not serve yet


def test_no_panel_and_no_alert_is_without_data_for_a_service_that_is_used(
    service: Service, prometheus: int
) -> None:
    missing = {
        re.sub("|".join(map(re.escape, VARIABLES)), lambda found: VARIABLES[found[0]], expression)
        for panel in PANELS
        for expression in [target["expr"] for target in panel["targets"]]
    }
    # An alert has data only when it fires, so the series that it selects are looked for.
    selected = [re.findall(r"\w+\{.*?\}", rule["expr"]) for rule in RULES]
    missing.update(each for found in selected for each in found if "node_filesystem" not in each)
    ids = iter(range(1_000_000))
    with service.client(service.token()) as client:

        def have_data() -> bool:
            client.post(NewPlant(next(ids), "a"))
            client.post(NewPlant(0, "another"))
            client.send("GET", "/plants?q=a")
            client.send("POST", "/plants.csv", f"id,name\n{next(ids)},b\n".encode(), CSV)
            missing.difference_update({each for each in missing if has_data(prometheus, each)})
            return not missing

        wait_until(have_data)

    assert missing == set()
    assert all(selected)
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
