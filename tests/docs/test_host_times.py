"""Host times of a call on the pages are those of benchmarks/results/host_overhead.json."""

from __future__ import annotations

import json

from figures import DOCS, RESULTS, ROOT, record

RECORD = json.loads((RESULTS / "host_overhead.json").read_text(encoding="utf-8"))
HOST = RECORD["host_us"]


def text(name: str) -> str:
    return " ".join((DOCS / name).read_text(encoding="utf-8").split())


def test_later_calls() -> None:
    ours, peer = HOST["tilewright.gemm"], HOST["torch.mm"]
    ours_out, peer_out = HOST["tilewright.gemm(out=)"], HOST["torch.mm(out=)"]
    assert (
        f"Later calls take {ours:.1f} us of the host, or {ours_out:.1f} us with `out=`, where `torch.mm` "
        f"takes {peer:.1f} and {peer_out:.1f} us"
    ) in text("use.md")
    launch = HOST["an empty kernel, as lean ones"]
    sentence = f"takes {ours_out:.1f} us of the host, of which the driver's launch takes {launch:.1f} "
    assert sentence in text("design.md")


def test_a_plan_takes_less_than_half() -> None:
    assert RECORD["ratios"]["plan(a, b, out) / torch.mm(out=)"] < 0.5
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "with `out=` it takes less than half of `torch.mm`'s [host time](" in readme


def test_parts_of_a_call() -> None:
    page = text("torch.md")
    for call, name in (("`gemm(out=)`", "tilewright.gemm(out=)"), ("a plan, with `out`", "plan(a, b, out)")):
        ratio = RECORD["ratios"][f"{name} / torch.mm(out=)"]
        assert f"| {call} | {ratio:.2f} of `torch.mm`'s |" in page


def test_calls_with_scales_beside_deep_gemm() -> None:
    rows = record("deepgemm_host", "| call | us |")
    shares = [float(row["share"]) for row in rows if "fp8" in row["call"]]
    assert len(shares) == 3
    assert f"[{min(shares):.2f} to {max(shares):.2f} of DeepGEMM's time](" in text("grouped.md")
