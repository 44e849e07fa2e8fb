"""What a run of the GPU's tests leaves in its record: passes of whole runs, failures of any."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recording
import shares

pytest_plugins = ["pytester"]

CONFTEST = """
import json, os, sys
from pathlib import Path

import pytest
import shares
import torch
from recording import Recorder

sys.modules["comparing"] = comparing = type(sys)("comparing")


def compare(found, wanted, what):
    assert torch.allclose(found, wanted), what


comparing.compare = compare


@pytest.fixture(params=["first", "second"], name="kernel")
def kernel(request):
    return request.param


def pytest_configure(config):
    config.addinivalue_line("markers", "marks_kernels: a failure is one of the kernels that were launched")
    given = json.loads(Path("given.json").read_text())
    keys = given["keys"]
    recorder = Recorder(Path("record.json"), given["card"], keys.__getitem__, list(keys), [comparing])
    config.pluginmanager.register(recorder, "recorder")


def pytest_collection_modifyitems(config, items):
    if share := os.environ.get("TILEWRIGHT_SHARE"):
        config.hook.pytest_deselected(items=shares.deal(items, share))
    if modules := os.environ.get("TILEWRIGHT_HOSTS"):
        module_of = {"first": "one", "second": "one", "third": "other"}
        config.hook.pytest_deselected(items=shares.represent(items, modules, module_of))


@pytest.fixture
def launched(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin("recorder").launched
"""
TESTS = """
import comparing
import pytest
import torch

ONE = torch.ones(4)
broken = {broken!r}


def test_before(kernel):
    assert (kernel, "before") not in broken


def test_compare(kernel):
    comparing.compare(ONE * (1.5 if (kernel, "compare") in broken else 1 + 1e-6), ONE, kernel)


def test_after(kernel):
    comparing.compare(ONE, ONE, kernel)
    assert (kernel, "after") not in broken


@pytest.mark.marks_kernels
def test_streams(launched):
    launched("second")
    assert ("second", "streams") not in broken


@pytest.mark.marks_kernels
def test_elsewhere(record_property):
    record_property("kernel", "third")
    assert ("third", "elsewhere") not in broken


def test_of_no_kernel(launched):
    launched("second")
    assert ("second", "unmarked") not in broken
"""
COMPARING_BY_ITSELF = """
def test_itself(kernel, launched):
    if kernel == "first":
        launched(kernel)
    assert (kernel, "itself") not in {broken!r}
"""
OF_ONE_KERNEL = """
import pytest

pytestmark = [pytest.mark.marks_kernels, pytest.mark.usefixtures("kernel")]


def test_one(launched, request):
    launched(request.node.callspec.params["kernel"])


def test_other(launched, request):
    launched(request.node.callspec.params["kernel"])
    assert (request.node.callspec.params["kernel"], "other") not in {broken!r}
"""
HAMMERED = """
import pytest


@pytest.mark.parametrize("hammered", ["first", "third"])
def test_hammer(hammered, launched, record_property):
    launched(hammered)
    wrong = 7 if (hammered, "hammer") in {broken!r} else 0
    runs = 1999 if (hammered, "few") in {broken!r} else 2000
    record_property("hammered", {{"kernel": hammered, "runs": runs, "wrong": wrong}})
    assert not wrong
"""
KILLED = """
import os, signal

import pytest


@pytest.mark.parametrize("number", range(24))
def test_hammer(number, record_property):
    if number == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    record_property("hammered", {{"kernel": f"kernel{{number}}", "runs": 2000, "wrong": 0}})
"""
CARD = {"gpu": "NVIDIA H200", "driver": "1"}
Record = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def record(pytester: pytest.Pytester) -> Record:
    """Runs tests of two kernels, of which `broken` fail; answers the record's rows by their names."""

    def run(
        *arguments: str,
        broken: set[tuple[str, str]] = frozenset(),  # type: ignore[assignment]
        key: str = "k1",
        tests: str = TESTS,
        **card: str,
    ) -> Any:
        made_of = {"source_key": key, "machine_code": f"code of {key}", "host_key": f"host of {key}"}
        keys = dict.fromkeys(("first", "second", "third"), made_of)
        Path("given.json").write_text(json.dumps({"card": {**CARD, **card}, "keys": keys}))
        pytester.makeconftest(CONFTEST)
        pytester.makepyfile(test_kernels=tests.format(broken=set(broken)))
        done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)
        actual = json.loads(Path("record.json").read_text())
        rows = {row["name"]: row for row in actual["kernels"]}
        rows["said"] = {"text": done.stdout.str()}
        return rows

    return run


def test_a_whole_run_that_passes(record: Record) -> None:
    rows = record()
    for name in ("first", "second"):
        row = rows[name]
        assert (row["passed"], row["problems"], row["source_key"]) == (True, 2, "k1")
        assert (row["machine_code"], row["host_key"]) == ("code of k1", "host of k1")
        assert row["max_error"] == pytest.approx(1e-6, rel=0.1)
    assert "third" not in rows
    assert "not recorded" not in rows["said"]["text"]


@pytest.mark.parametrize("count", [2, 5])
def test_shares_together_run_every_test_once_and_keep_all_rows(
    record: Record, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    whole = record()
    Path("record.json").unlink()
    passed, rows = 0, {}
    for place in range(1, count + 1):
        monkeypatch.setenv("TILEWRIGHT_SHARE", f"{place}/{count}")
        rows = record()
        passed += sum(map(int, re.findall(r"(\d+) passed", rows["said"]["text"])))
        assert "not recorded" not in rows["said"]["text"]
    assert passed == int(re.findall(r"(\d+) passed", whole["said"]["text"])[0])
    assert {name: rows[name] for name in ("first", "second")} == {
        name: whole[name] for name in ("first", "second")
    }


@pytest.mark.parametrize("share", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(pytest.UsageError, match="I from 1 to N"):
        shares.deal([], share)


MORE_OF_ONE_KERNEL = f"""{TESTS}

@pytest.mark.parametrize(("kernel", "size"), [("first", 1), ("second", 1), ("second", 2)])
def test_sizes(kernel, size):
    comparing.compare(ONE, ONE, kernel)
"""


def test_the_kernel_with_the_most_tests_stands_for_its_module(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record(tests=MORE_OF_ONE_KERNEL)
    monkeypatch.setenv("TILEWRIGHT_HOSTS", "one")
    rows = record(tests=MORE_OF_ONE_KERNEL, key="k2")
    assert re.search(r"5 passed, \d+ deselected", rows["said"]["text"])
    assert (rows["second"]["passed"], rows["second"]["host_key"]) == (True, "host of k2")
    assert rows["first"] == before["first"]


def test_a_module_that_no_test_takes_a_kernel_of_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="HOSTS=one: no test takes a kernel of one"):
        shares.represent([], "one", {"first": "one"})


def test_kernels_whose_tests_compare_by_themselves_have_rows_where_they_were_launched(record: Record) -> None:
    rows = record(tests=COMPARING_BY_ITSELF)
    row = rows["first"]
    assert (row["passed"], row["problems"], row["max_error"]) == (True, 1, None)
    assert "second" not in rows
    assert not record(tests=COMPARING_BY_ITSELF, broken={("first", "itself")})["first"]["passed"]


def test_all_tests_of_a_module_that_uses_the_kernel_are_of_it(record: Record) -> None:
    rows = record(tests=OF_ONE_KERNEL, broken={("second", "other")})
    assert (rows["first"]["passed"], rows["first"]["problems"]) == (True, 2)
    assert not rows["second"]["passed"]
    Path("record.json").unlink()
    assert "first" not in record("-k", "one", tests=OF_ONE_KERNEL), "a part of its tests is no pass"


@pytest.mark.parametrize(("where", "problems"), [("before", 2), ("compare", 1), ("after", 2)])
def test_a_failure_in_any_test_is_recorded(record: Record, where: str, problems: int) -> None:
    rows = record(broken={("first", where)})
    assert (rows["first"]["passed"], rows["first"]["problems"]) == (False, problems)
    assert rows["second"]["passed"]


def test_a_kernel_that_fails_before_anything_is_compared_has_a_row(record: Record) -> None:
    rows = record("-k", "test_before", broken={("first", "before")})
    row = rows["first"]
    assert (row["passed"], row["problems"], row["max_error"]) == (False, 0, None)
    assert "second" not in rows


@pytest.mark.parametrize(("kernel", "where"), [("second", "streams"), ("third", "elsewhere")])
def test_failures_of_streams_mark_the_kernels_that_ran(record: Record, kernel: str, where: str) -> None:
    rows = record(broken={(kernel, where)})
    assert not rows[kernel]["passed"]
    assert rows["first"]["passed"]


def test_failures_of_tests_that_are_of_no_kernel_mark_none(record: Record) -> None:
    rows = record(broken={("second", "unmarked")})
    assert rows["second"]["passed"]


@pytest.mark.parametrize(
    "arguments", [["-k", "compare or after"], ["test_kernels.py::test_compare"], ["--maxfail=1"]]
)
def test_a_part_of_the_tests_is_no_pass(record: Record, arguments: list[str]) -> None:
    """Neither by -k nor by name, nor what was left when a run ended early."""
    broken = {("first", "compare")} if arguments == ["--maxfail=1"] else set()
    rows = record(*arguments, broken=broken)
    assert rows.keys() <= {"first", "said"}
    if not broken:
        assert (
            "2 kernels not recorded in record.json: some of their tests did not run" in rows["said"]["text"]
        )


CASES = """
import comparing
import pytest
import torch


@pytest.mark.parametrize(("kernel", "size"), [("first", 1), ("first", 2), ("second", 1), ("second", 2)])
def test_sizes(kernel, size):
    if (kernel, size) in {broken!r}:
        pytest.exit("as by an interrupt")
    comparing.compare(torch.ones(4), torch.ones(4), kernel)
"""


@pytest.mark.parametrize("ends", [True, False])
def test_a_part_of_the_cases_of_a_test_is_no_pass(record: Record, ends: bool) -> None:
    arguments = [] if ends else ["-k", "not second-2"]
    rows = record(*arguments, tests=CASES, broken={("second", 2)})
    assert (rows["first"]["passed"], rows["first"]["problems"]) == (True, 2)
    assert "second" not in rows
    assert "1 kernels not recorded" in rows["said"]["text"]
    assert record(tests=CASES)["second"]["passed"]


def test_a_part_of_the_tests_keeps_the_row_there_is(record: Record) -> None:
    assert not record(broken={("first", "after")})["first"]["passed"]
    rows = record("-k", "compare")
    assert not rows["first"]["passed"]  # a later pass of another test hides nothing
    assert rows["second"]["passed"]
    assert record()["first"]["passed"]


def test_rows_that_are_kept_keep_their_dates(record: Record) -> None:
    record()
    path = Path("record.json")
    actual = json.loads(path.read_text())
    actual["date"] = "2020-02-02"
    for row in actual["kernels"]:
        del row["date"]  # as records had none
    actual["kernels"].append({**actual["kernels"][0], "name": "third", "date": "2019-01-01"})
    path.write_text(json.dumps(actual))
    rows = record("-k", "first")
    assert rows["first"]["date"] > "2020-02-02"
    assert rows["second"]["date"] == "2020-02-02"
    assert rows["third"]["date"] == "2019-01-01"


def test_the_hammer_alone_claims_no_pass_and_drops_none(record: Record) -> None:
    before = record()
    rows = record(tests=HAMMERED, key="k2")
    counts = {"source_key": "k2", "machine_code": "code of k2", "runs": 2000, "wrong": 0}
    for name in ("first", "third"):
        hammered = dict(rows[name]["hammered"])
        assert hammered.pop("date")
        assert hammered == counts
    assert {key: value for key, value in rows["first"].items() if key != "hammered"} == before["first"]
    assert rows["second"] == before["second"]
    assert rows["third"].keys() - {"date"} == {"name", "source_key", "machine_code", "hammered"}
    again = record(key="k3")
    assert again["first"]["source_key"] == "k3"
    assert again["first"]["hammered"] == rows["first"]["hammered"]
    assert again["third"]["hammered"] == rows["third"]["hammered"]
    assert "passed" not in again["third"]


def test_wrong_bits_are_recorded_and_are_no_failure_of_other_tests(record: Record) -> None:
    record()
    rows = record(tests=HAMMERED, broken={("first", "hammer"), ("first", "few"), ("third", "few")})
    assert (rows["first"]["hammered"]["wrong"], rows["first"]["hammered"]["runs"]) == (7, 1999)
    assert rows["first"]["passed"]
    assert "third" not in rows, "too few runs say nothing, unless some were wrong"


@pytest.mark.parametrize("last", [8, 23])
def test_a_process_that_is_killed_loses_the_last_few_hammered_kernels(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(recording.__file__).parent))
    keys = {f"kernel{number}": {"source_key": "k1", "machine_code": "m"} for number in range(24)}
    Path("given.json").write_text(json.dumps({"card": CARD, "keys": keys}))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_kernels=KILLED.format(last=last))
    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist")
    assert ended.ret == -signal.SIGKILL
    rows = json.loads(Path("record.json").read_text())["kernels"]
    assert last - recording.KEPT_BACK < len(rows) <= last
    assert [row["name"] for row in rows] == [f"kernel{number}" for number in range(len(rows))]
    assert {row["hammered"]["runs"] for row in rows} == {2000}


def test_rows_of_another_gpu_or_driver_go(record: Record) -> None:
    record(key="old")
    rows = record("-k", "first", driver="2")
    assert rows.keys() == {"first", "said"}
