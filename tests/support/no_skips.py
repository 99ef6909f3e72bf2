"""A pytest plugin: a test that skips itself is a failure.

A skipped test proves nothing and looks green. A test that cannot run on some machine belongs behind a marker that the
command line leaves out, in plain sight, not behind a skip. Switched on for every run by ``pytest.ini_options``.
"""

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip, by a mark, in a fixture or in the test's body, into a failure that quotes its reason."""
    report = yield
    # An expected failure is reported as a skip too; `xfail_strict` already keeps those honest.
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} skipped itself, which counts as a failure here: {call.excinfo and call.excinfo.value}"
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips itself while it is collected into a collection error."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped itself while it was collected: {report.longrepr}"
    return report
