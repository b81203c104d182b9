"""The alerts and the dashboard, checked with a real Prometheus that scrapes a real service."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from plantstore.plants import NewPlant
from support.fronts import free_port
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


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], cwd=ALERTS.parent, capture_output=True, text=True, check=False
    )


def test_each_alert_fires_when_it_should() -> None:
    checked = promtool("check", "rules", ALERTS)
    tested = promtool("test", "rules", "alerts_test.yml")

    assert checked.returncode == 0, checked.stderr
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_there_is_a_case_for_each_alert() -> None:
    cases = yaml.safe_load((ALERTS.parent / "alerts_test.yml").read_text("utf-8"))["tests"]

    tested = {case["alertname"] for test in cases for case in test["alert_rule_test"]}

    assert tested == {rule["alert"] for rule in RULES}


def test_the_panels_of_the_dashboard_have_ids_places_and_a_data_source() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(ids)) == len(ids)
    assert len(set(cells)) == len(cells)
    assert all(x < 24 for x, _ in cells)
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {
        *("datasource", "job", "instance")
    }


class Prometheus:
    """A Prometheus server that scrapes a service every second."""

    def __init__(self, folder: Path, service: Service) -> None:
        self._port = free_port()
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
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", f"--config.file={folder}/prometheus.yml"]
        command += [f"--storage.tsdb.path={folder}/tsdb"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def has_data(self, expression: str) -> bool:
        """Return whether an expression has a result now."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            url = f"http://127.0.0.1:{self._port}/api/v1/query?{query}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return bool(json.load(answer)["data"]["result"])
        except OSError:
            return False  # it does not serve yet


@pytest.fixture
def scraped(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Service, Prometheus]]:
    """Yield a service on PostgreSQL, which has all metrics, and a Prometheus that scrapes it."""
    if shutil.which("prometheus") is None:
        pytest.fail("`make project-programs` installs prometheus")
    with Service(tmp_path, database=request.getfixturevalue("databases").new()) as service:
        prometheus = Prometheus(tmp_path, service)
        try:
            yield service, prometheus
        finally:
            prometheus.process.kill()
            prometheus.process.wait()


def test_no_panel_and_no_alert_is_without_data_for_a_service_that_is_used(
    scraped: tuple[Service, Prometheus],
) -> None:
    service, prometheus = scraped
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
            missing.difference_update({each for each in missing if prometheus.has_data(each)})
            return not missing

        wait_until(have_data)

    assert missing == set()
    assert all(selected)
