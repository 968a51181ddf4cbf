"""What is written of metrics is what there is: the page, the alerts and the dashboard name nothing else."""

# ruff: noqa: SLF001 - the client tells the labels of a metric in no other way

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Counter, Histogram, Info, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from app.telemetry.metrics import Metrics, build_metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "sinksweep.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "sinksweep.json"
# Of Prometheus itself, of every client, and of the node exporter beside a database.
FOREIGN = {"up", "process_resident_memory_bytes", "node_filesystem_avail_bytes"}
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")


def _wrapped(metrics: Metrics) -> Iterator[MetricWrapperBase]:
    for collector in list(metrics.registry._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            yield collector


def defined() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every metric of ours by the name it is shown with: its type and its labels."""
    found = {}
    for one in _wrapped(build_metrics()):
        name, kind, labels = one._name, str(one._type), one._labelnames
        match one:
            case Info():
                name, kind, labels = f"{name}_info", "gauge", ("version",)
            case Counter():
                name = f"{name}_total"
            case _:
                pass
        found[name] = (kind, tuple(labels))
    return found


def series() -> dict[str, set[str]]:
    """The names that a query may use, with the labels that each may have."""
    found = {name: set(labels) for name, (_, labels) in defined().items()}
    for one in _wrapped(build_metrics()):
        if isinstance(one, Histogram):
            del found[one._name]
            for suffix, more in (("bucket", {"le"}), ("count", set()), ("sum", set())):
                found[f"{one._name}_{suffix}"] = {*one._labelnames, *more}
    return found


def test_the_page_names_every_metric_with_its_type_and_its_labels() -> None:
    rows = re.findall(
        r"^\| `(sinksweep_\w+)` \| (\w+) \| (.*?) ?\|", PAGE.read_text(), re.MULTILINE
    )
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    assert len(rows) == len(told)
    assert told == defined()


def test_names_follow_the_conventions() -> None:
    for name, (kind, labels) in defined().items():
        assert name.startswith("sinksweep_")
        assert name.endswith("_total") == (kind == "counter"), name
        assert kind != "histogram" or name.endswith("_seconds"), name
        assert not {"turn", "inbound", "message", "conversation", "key", "host"} & set(labels)


def queries() -> list[str]:
    """Every query of the alerts and of the dashboard."""
    rules = re.findall(r"expr: (?:\|\n((?: {10,}.*\n)+)|(.*))", RULES.read_text())
    found = [one or other for one, other in rules]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return found + [target["expr"] for panel in panels for target in panel.get("targets", ())]


def test_alerts_and_dashboard_ask_for_nothing_that_is_not_there() -> None:
    known = series()
    asked = queries()
    assert len(asked) > 30
    for query in asked:
        names = re.findall(r"\b([a-z]+_[a-z_]+)\b(?=[{\[ )]|$)", query)
        functions = {"histogram_quantile", "predict_linear"}
        metrics = {name for name in names if name.startswith(("sinksweep", "node", "process"))}
        assert metrics or "up{" in query, query
        assert metrics <= known.keys() | FOREIGN | functions, query
        for name, matchers in re.findall(r"\b(sinksweep_\w+)\{([^}]*)\}", query):
            assert set(re.findall(r"(\w+)(?:=|!)", matchers)) <= known[name], query
        allowed = {label for name in metrics for label in known.get(name, ())}
        for grouped in re.findall(r"\bby \(([^)]*)\)", query):
            assert set(grouped.split(", ")) <= allowed | {"instance"}, query


def test_every_alert_is_on_the_page_and_the_other_way_round() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    told = re.findall(r"^\| `(Sinksweep\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(alerts) == sorted(told)


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert PROMTOOL is not None
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", str(RULES)], capture_output=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    assert PROMTOOL is not None
    metrics = build_metrics()
    for one in _wrapped(metrics):
        if one._labelnames:
            one.labels(*("x" for _ in one._labelnames))
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=generate_latest(metrics.registry),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


@needs_promtool
def test_the_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    case = tmp_path / "case.yml"
    case.write_text(ALERTS.format(rules=RULES))
    checked = subprocess.run(
        [PROMTOOL, "test", "rules", str(case)], capture_output=True, check=False, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


ALERTS = """
rule_files: ["{rules}"]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'sinksweep_oldest_pending_age_seconds{{destination="crm", instance="a"}}'
        values: '0+60x40'
      - series: 'sinksweep_oldest_pending_age_seconds{{destination="mail", instance="a"}}'
        values: '0+60x40'
      - series: 'sinksweep_delivery_attempts_total{{destination="mail", outcome="delivered"}}'
        values: '0+5x40'
      - series: 'sinksweep_delivery_attempts_total{{destination="crm", outcome="unknown"}}'
        values: '0+5x40'
      - series: 'sinksweep_build_info{{version="1", instance="a"}}'
        values: '1x40'
      - series: 'sinksweep_loop_passes_total{{loop="deliver", result="done", instance="a"}}'
        values: '0+60x40'
      - series: 'sinksweep_breaker{{destination="crm", state="open"}}'
        values: '1x40'
      - series: 'sinksweep_breaker{{destination="crm", state="closed"}}'
        values: '0x40'
      - series: 'sinksweep_breaker{{destination="mail", state="closed"}}'
        values: '1x40'
      - series: 'sinksweep_turns{{queue="support", state="escalated", instance="a"}}'
        values: '0x10 2x30'
      - series: 'sinksweep_turns{{queue="support", state="held", instance="a"}}'
        values: '7x40'
      - series: 'sinksweep_notices_total{{queue="quiet", kind="hold", result="nobody"}}'
        values: '0x10 1x30'
      - series: 'sinksweep_notices_total{{queue="support", kind="hold", result="told"}}'
        values: '0+5x40'
      - series: 'sinksweep_oldest_notice_age_seconds{{instance="a"}}'
        values: '0x10 0+60x30'
      - series: 'sinksweep_source_requests_total{{source="chat", result="bad_signature"}}'
        values: '0+2x40'
      - series: 'sinksweep_source_requests_total{{source="shop", result="bad_signature"}}'
        values: '0+2x40'
      - series: 'sinksweep_source_requests_total{{source="shop", result="accepted"}}'
        values: '0+2x40'
      - series: 'sinksweep_source_requests_total{{source="bot", result="not_ready"}}'
        values: '0+1x40'
      - series: 'sinksweep_source_items_total{{source="shop", result="differing"}}'
        values: '0x10 0+1x30'
      - series: 'sinksweep_source_items_total{{source="daily", result="missed"}}'
        values: '0x10 7x30'
      - series: 'sinksweep_lookups_total{{destination="crm", answer="unanswered"}}'
        values: '0+1x40'
      - series: 'sinksweep_lookups_total{{destination="mail", answer="unanswered"}}'
        values: '0+1x40'
      - series: 'sinksweep_lookups_total{{destination="mail", answer="there"}}'
        values: '0+1x40'
    alert_rule_test:
      - eval_time: 30m
        alertname: SinksweepSignaturesRefused
        exp_alerts:
          - exp_labels: {{severity: critical, source: chat}}
            exp_annotations:
              summary: "Nothing that came for chat was signed with its secret"
      - eval_time: 30m
        alertname: SinksweepSourceNotReady
        exp_alerts:
          - exp_labels: {{severity: critical, source: bot}}
            exp_annotations:
              summary: "The source bot tells its provider to come again: look for a missing secret"
      - eval_time: 10m
        alertname: SinksweepBodiesDiffer
        exp_alerts: []
      - eval_time: 30m
        alertname: SinksweepBodiesDiffer
        exp_alerts:
          - exp_labels: {{severity: warning, source: shop}}
            exp_annotations:
              summary: "Other bodies come under known keys of shop"
      - eval_time: 30m
        alertname: SinksweepSchedulesMissed
        exp_alerts:
          - exp_labels: {{severity: warning, source: daily}}
            exp_annotations:
              summary: "Scheduled times of daily were left out"
      - eval_time: 35m
        alertname: SinksweepLookupsUnanswered
        exp_alerts:
          - exp_labels: {{severity: warning, destination: crm}}
            exp_annotations:
              summary: "crm is asked what became of messages, and does not say"
      - eval_time: 5m
        alertname: SinksweepNothingDelivered
        exp_alerts: []
      - eval_time: 30m
        alertname: SinksweepNothingDelivered
        exp_alerts:
          - exp_labels: {{severity: critical, destination: crm}}
            exp_annotations:
              summary: "Messages for crm are due, and none was delivered for 10 minutes"
      - eval_time: 30m
        alertname: SinksweepNobodySweeps
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations:
              summary: "No process sweeps: what a crash strands stays stranded"
      - eval_time: 5m
        alertname: SinksweepHoldsEscalated
        exp_alerts: []
      - eval_time: 30m
        alertname: SinksweepHoldsEscalated
        exp_alerts:
          - exp_labels: {{severity: critical, queue: support}}
            exp_annotations:
              summary: "2 turns of support wait for a decision past their deadline"
      - eval_time: 30m
        alertname: SinksweepNobodyAsked
        exp_alerts:
          - exp_labels: {{severity: warning, queue: quiet}}
            exp_annotations:
              summary: "Turns of quiet wait for a person, and nobody is told"
      - eval_time: 12m
        alertname: SinksweepNoticesWait
        exp_alerts: []
      - eval_time: 30m
        alertname: SinksweepNoticesWait
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations:
              summary: "Somebody has been to be told of something for 19m 0s"
      - eval_time: 30m
        alertname: SinksweepBreakerOpen
        exp_alerts:
          - exp_labels: {{severity: warning, destination: crm, state: open}}
            exp_annotations:
              summary: "The breaker of crm is open"
"""
