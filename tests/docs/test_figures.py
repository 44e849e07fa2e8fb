"""Tables of measurements on the pages say what the committed records say."""

from __future__ import annotations

import json
import re
import statistics

import pytest
from figures import DOCS, RESULTS, ROOT, Row, alike, geomean, merged, number, record, said, same, table

from tilewright.declarations.table import Table
from tilewright_generator.reports import speed_chart
from tilewright_generator.reports import speeds as recorded_speeds


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("design", "(`grouped_gemm/form.hpp`): {} kernels have, beside their general"),
        ("hopper_launches", "{} kernels with scales of 128x128 have three forms"),
    ],
)
def test_kernels_that_have_forms(name: str, sentence: str) -> None:
    kernels = Table.read(ROOT / "generated/sm90_grouped_gemm/table.json")
    configs = (kernels[kernel].config for kernel in kernels)
    count = sum((config["scales"], config["d"]) == ("128x128", "bf16") for config in configs)
    assert sentence.format(count) in (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "row", table(DOCS / "hopper.md", "| problems | type | mean |"), ids=lambda row: row["mean"]
)
def test_dense_products(row: Row) -> None:
    (name,) = re.findall(r"results/(\w+)\.md", row["mean"])
    assert {"BF16": "bf16", "FP16": "fp16", "FP8": "fp8"}[row["type"]] in name
    ratios = [float(entry["ratio"]) for entry in record(name, "| layer |" if "yaml" in name else "| m |")]
    assert alike(row["mean"], said(name, "geomean"))
    assert float(said(name, "geomean")) == pytest.approx(geomean(ratios), abs=2e-4)
    assert alike(row["least"], said(name, "minimum"))
    assert float(said(name, "minimum")) == pytest.approx(min(ratios), abs=6e-4)
    # The table's 0.950 may be a little less.
    most, least = (sum(ratio > limit for ratio in ratios) / len(ratios) for limit in (0.9495, 0.9505))
    assert least <= number(row["at 0.95 or more"]) / 100 <= most
    if "yaml" not in name:
        assert same(row["at 0.95 or more"], 100 * float(said(name, "share at 0.95")))


KINDS = {
    "dense FP8": "dense_fp8", "contiguous FP8": "contiguous_fp8", "masked FP8": "masked_fp8",
    "along k FP8": "k_grouped_fp8", "gradients FP8": "dense_fp8_gradient",
    "contiguous BF16": "contiguous_bf16", "masked BF16": "masked_bf16", "along k BF16": "k_grouped_bf16",
}  # fmt: skip


def test_grouped_products() -> None:
    rows = record("grouped_vs_deepgemm", "| kind | shape | us |")
    pages = {
        row["products"].partition(" (")[0]: row for row in table(DOCS / "grouped.md", "| products | shapes |")
    }
    assert set(pages) == {*KINDS, "of these with 4,096 rows"}
    for words, row in pages.items():
        kind = KINDS.get(words, "dense_fp8")
        some = [
            entry
            for entry in rows
            if entry["kind"] == kind and (words in KINDS or entry["shape"][:4] == "4096")
        ]
        ratios = [float(entry["ratio"]) for entry in some]
        assert int(row["shapes"]) == len(ratios)
        assert same(row["mean"], geomean(ratios)), words
        assert same(row["least"], min(ratios)), words


@pytest.mark.parametrize(
    "row",
    table(DOCS / "hc_prenorm.md", "| m, k | splits |"),
    ids=lambda row: f"{row['m, k']} {row['splits']}",
)
def test_prenorm(row: Row) -> None:
    m, k = row["m, k"].split(", ")
    expected = (m, "24", k, "1" if row["splits"] == "none" else row["splits"])
    (entry,) = (
        entry
        for entry in record("prenorm")
        if (entry["m"], entry["n"], entry["k"], entry["splits"]) == expected
    )
    assert alike(row["us"], entry["us"])
    assert alike(row["TB/s"], entry["TB/s"])
    assert alike(row["of the copy's bandwidth"], entry["of a copy"])
    assert alike(row["DeepGEMM's time over ours"], entry["over DeepGEMM"])


@pytest.mark.parametrize(
    "row",
    table(DOCS / "mqa_logits.md", "| ranges: queries x keys |"),
    ids=lambda row: row["ranges: queries x keys"],
)
def test_logits_of_ranges(row: Row) -> None:
    extents = row["ranges: queries x keys"]
    last = "of 4.25" if "earlier" in extents else "of a copy"  # a column of that run's table alone
    head = f"| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | {last} |"
    queries, keys = re.findall(r"\d+", extents)[:2]
    (entry,) = (
        entry for entry in record("mqa_logits", head)
        if [entry[name] for name in ("form", "queries", "keys", "logits")] == ["ragged", queries, keys, "f32"]
    )  # fmt: skip
    assert alike(row["TFLOP/s"], entry["TFLOP/s"])
    assert alike(row["DeepGEMM's time over ours"], entry["DeepGEMM"])


@pytest.mark.parametrize("page", ["docs/speed.md", "docs/deep_gemm.md", "benchmarks/results/README.md"])
def test_einsums_of_bf16(page: str) -> None:
    """Every page says the same of them."""
    lines = (RESULTS / "grouped_vs_deepgemm_einsum.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| einsum " in line]
    shapes = [row for row in rows if "=" in row[1] and row[3]]
    ratios = [float(row[5]) for row in shapes]
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    (on_page,) = re.findall(r"BF16 einsums(?: have)?:? (.*?0\.\d\d at least)", text)
    assert len(ratios) == 29
    numbers = re.findall(r"\b[01]\.\d\d\b", re.sub(r"\]\([^)]*\)", "", on_page))
    assert numbers == [f"{geomean(ratios):.2f}", f"{min(ratios):.2f}"]


def speeds(name: str, row: Row) -> list[float]:
    """The speeds of a record's rows that a row of speed.md is about."""
    if name == "mqa_logits":
        form = "paged" if "pages" in row["products"] else "ragged"
        head = "| form | queries | keys | heads | logits | us | TFLOP/s | TB/s | of a copy |"
        return [float(entry["DeepGEMM"]) for entry in record(name, head) if entry["form"] == form]
    if name == "grouped_vs_deepgemm":
        products = row["products"].removesuffix(" groups").replace("groups along", "along")
        kind = KINDS[f"{products.partition(' ')[0] if 'along' not in products else products} {row['type']}"]
        rows = record(name, "| kind | shape | us |")
        return [float(entry["ratio"]) for entry in rows if entry["kind"] == kind]
    if name == "packed_random":
        packed = [
            entry
            for entry in record(name, "| n x k | m |")
            if entry["format"].startswith(row["type"].lower())
        ]
        return [float(entry["ratio to Humming"]) for entry in packed]
    return [float(entry["ratio"]) for entry in record(name, "| layer |" if "yaml" in name else "| m |")]


def speed_rows() -> list[Row]:
    """The rows of speed.md's first table, each with its products."""
    return merged(DOCS / "speed.md", "| products | type | peer |")


@pytest.mark.parametrize("row", speed_rows(), ids=lambda row: f"{row['products'][:30]} {row['type']}")
def test_speeds(row: Row) -> None:
    (name,) = re.findall(r"results/(\w+)\.md", row["mean speed"])
    if "gemm_" in name:
        assert row["type"].lower() in name
    values = speeds(name, row)
    assert len(values) == int(row["problems"])
    # A record's speeds are rounded themselves.
    assert number(row["mean speed"]) == pytest.approx(
        geomean(values), abs=6e-3 if name == "mqa_logits" else 1e-3
    )
    assert number(row["worst"]) == pytest.approx(min(values), abs=6e-4)


@pytest.mark.parametrize(
    "row",
    table(ROOT / "README.md", "| products | type | peer |"),
    ids=lambda row: row["products"] + row["type"],
)
def test_speeds_of_the_readme(row: Row) -> None:
    content = recorded_speeds.read(ROOT)
    assert content is not None
    (series,) = (
        series
        for series in content.series
        if [series.products, series.type, series.peer] == [row["products"], row["type"], row["peer"]]
    )
    assert f"({series.record})" in row["mean speed"]
    assert int(row["problems"]) == len(series.problems)
    assert number(row["mean speed"]) == pytest.approx(series.mean, abs=1e-3)
    assert number(row["worst"]) == pytest.approx(series.worst, abs=6e-4)


def test_the_readme_begins_with_the_speeds_of_random_shapes() -> None:
    rows = {row["type"]: row for row in speed_rows() if row["products"].endswith("random shapes")}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (on_page,) = re.findall(
        r"over (\d+) random shapes each.*?\s([\d.]+) \(BF16\) and ([\d.]+) \(FP8\)", text, re.DOTALL
    )
    assert {on_page[0]} == {row["problems"] for row in rows.values()}
    # 1.1554 is 1.155 in the table and 1.16 here.
    assert same(on_page[1], geomean(speeds("gemm_untuned_bf16_20281", rows["BF16"])))
    assert same(on_page[2], geomean(speeds("gemm_untuned_fp8_20281", rows["FP8"])))
    ((bf16, fp8),) = re.findall(
        r"([\d.]+) \(BF16, beside cuBLAS\) and ([\d.]+) \(FP8, beside DeepGEMM\)", text
    )
    assert same(bf16, float(recorded_stacks()["bf16", "model"]["geomean"]))
    assert same(fp8, float(recorded_stacks()["fp8", "model"]["geomean"]))


def test_where_the_readme_advises_against_tilewright() -> None:
    by_m = dict(re.findall(r"(\d+): ([\d.]+)", said("gemm_yaml_bf16", "by m")))
    many = [float(mean) for m, mean in by_m.items() if int(m) >= 256]
    assert len(many) == 7
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (on_page,) = re.findall(r"starting at m = 256 the mean is \[([\d.]+) to ([\d.]+) of cuBLAS", text)
    assert same(on_page[0], min(many))
    assert same(on_page[1], max(many))


def recorded_stacks() -> dict[tuple[str, str], Row]:
    """The summaries of stacks of 16 and 8 bits, by type and variant."""
    head = "| dtype | variant | count |"
    rows = [*record("stacks_bf16", head), *record("stacks_fp8", head)]
    summaries = {(row["dtype"], row["variant"]): row for row in rows}
    alone = record("stacks_bf16", "| dtype | variant | model | m |", after="## Products alone")
    ratios = [float(row["ratio"]) for row in alone]
    summaries["bf16", "products"] = {
        "count": f"{len(ratios)}", "geomean": f"{geomean(ratios):.3f}", "least": f"{min(ratios):.3f}",
        "share at 0.95": f"{sum(ratio >= 0.95 for ratio in ratios) / len(ratios):.3f}",
    }  # fmt: skip
    return summaries


def test_stacks() -> None:
    recorded = recorded_stacks()
    rows = table(DOCS / "speed.md", "| what runs | type | peer |")
    assert len(rows) == len(recorded) == 5
    for row in rows:
        fused = ", fused" if row["what runs"].endswith("fused") else ""
        variant = "products" if row["what runs"] == "products alone" else f"model{fused}"
        expected = recorded[row["type"].lower(), variant]
        assert row["stacks"] == expected["count"]
        assert row["mean speed"] == expected["geomean"]
        assert row["worst"] == expected["least"]
        assert same(row["0.95 or more"], 100 * float(expected["share at 0.95"]))


def test_the_index_counts_compiles_and_runs() -> None:
    index = (RESULTS / "README.md").read_text(encoding="utf-8")
    modules = [json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS / "compile").glob("*.json")]
    compiled = [kernel for module in modules for kernel in module["kernels"]]
    spilling = [kernel for kernel in compiled if kernel["spill_store_bytes"] + kernel["spill_load_bytes"]]
    assert f"all {len(compiled):,} kernels, no serialised wgmma on Hopper; {len(spilling)} spill" in index
    kernels = json.loads((RESULTS / "gpu/h200.json").read_text(encoding="utf-8"))["kernels"]
    problems = sum(kernel["problems"] for kernel in kernels)
    assert f"{len(kernels):,} kernels, {problems:,} problems, every row with its day: all passed" in index
    assert all(kernel["passed"] for kernel in kernels)


def test_the_index_has_the_speeds_of_stacks() -> None:
    rows = merged(RESULTS / "README.md", "| record | what runs | stacks |")
    variants = ("model", "model, fused", "products", "model", "products")
    for row, variant in zip(rows, variants, strict=True):
        expected = recorded_stacks()[row["record"].removeprefix("stacks_"), variant]
        assert (row["stacks"], row["mean"], row["least"]) == (
            expected["count"], expected["geomean"], expected["least"],
        )  # fmt: skip


@pytest.mark.parametrize(
    "row", table(RESULTS / "README.md", "| problems | type | mean | least | k is split |")
)
def test_batch_invariant_mode_beside_the_free_choice(row: Row) -> None:
    name = "batch_invariant_layers" if "layers" in row["problems"] else "batch_invariant"
    after = "## With forms" if "with forms" in row["problems"] else ""
    rows = [
        entry
        for entry in record(name, "| dtype | kind | m |", after)
        if entry["dtype"] == row["type"].lower()
    ]
    shares = [float(entry["share"]) for entry in rows]
    gains = [float(entry["gain"]) for entry in rows if entry["splits"] != "1"]
    assert int(row["problems"].split()[0]) == len(rows)
    assert same(row["mean"], geomean(shares))
    assert same(row["least"], min(shares))
    assert int(row["k is split"]) == len(gains)
    if gains:
        assert same(row["without a split over with it: least"], min(gains))
        assert same(row["most"], max(gains))


def test_stacks_of_packed_weights() -> None:
    ratios = [float(row["ratio"]) for row in record("packed_stacks", "| format | model | m | us |")]
    means = {
        (row["format"], row["m"]): row["geomean"] for row in record("packed_stacks", "| format | m | count |")
    }
    text = " ".join((DOCS / "speed.md").read_text(encoding="utf-8").split())
    (figures,) = re.findall(
        r"([\d.]+) to ([\d.]+) times Humming's speed in all (\d+) cases, and ([\d.]+) and ([\d.]+) in", text
    )
    assert int(figures[2]) == len(ratios)
    assert same(figures[0], min(ratios))
    assert same(figures[1], max(ratios))
    assert alike(figures[3], means["int4_g128", "1"])
    assert alike(figures[4], means["mxfp4", "1"])
    mean = statistics.geometric_mean
    unfused = [float(row["unfused_ratio"]) for row in record("packed_stacks", "| format | model | m | us |")]
    engines = [float(row["ratio"]) for row in record("packed_stacks_engines", "| format | model | m | us |")]
    (on_page,) = re.findall(
        r"without that the mean of all cases is ([\d.]+), with it ([\d.]+)\..*? it is ([\d.]+) \(\[packed",
        text,
    )
    for figure, those in zip(on_page, (unfused, ratios, engines), strict=True):
        assert alike(figure, str(mean(those)))


def test_groups_along_k_beside_torch() -> None:
    rows = {row["kind"]: row for row in record("grouped_vs_deepgemm", "| kind | shapes |")}
    text = " ".join((DOCS / "speed.md").read_text(encoding="utf-8").split())
    (on_page,) = re.findall(r"Ours are at ([\d.]+)\s+\(FP8\) and ([\d.]+) \(BF16\) of its speed", text)
    assert alike(on_page[0], rows["k_grouped_fp8"]["over torch"])
    assert alike(on_page[1], rows["k_grouped_bf16"]["over torch"])


def test_the_chart_is_drawn_from_the_records() -> None:
    """`tilewright report` draws what is committed."""
    content = recorded_speeds.read(ROOT)
    assert content is not None
    shown = [series for series in content.series if series.in_chart]
    drawn = speed_chart.chart(shown, content.title, content.subtitle)
    assert (DOCS / "images/speed.svg").read_text(encoding="utf-8") == drawn
    dots = sum(path.count("h0") for path in re.findall(r'class="dots[^>]*', drawn))
    assert dots == sum(len(series.problems) for series in shown)


def test_every_series_of_the_list_is_on_the_page() -> None:
    """speeds.yaml and speed.md read the same rows of the records."""
    content = recorded_speeds.read(ROOT)
    assert content is not None
    elsewhere = {"stacks_bf16", "stacks_fp8", "packed_stacks", "grouped_vs_deepgemm_einsum"}
    records = {series.record.stem for series in content.series} - elsewhere
    pages = speed_rows()
    assert records == {re.findall(r"results/(\w+)\.md", row["mean speed"])[0] for row in pages}
    problems = sum(len(speeds(re.findall(r"results/(\w+)\.md", row["mean speed"])[0], row)) for row in pages)
    assert problems == sum(len(series.problems) for series in content.series if series.record.stem in records)


def test_host_time_of_deep_gemm_s_functions() -> None:
    """deep_gemm.md rounds what the record says of all calls, and of the one that is two launches."""
    rows = {row["call"]: row for row in record("deepgemm_host", "| call | us |")}
    twice = float(rows.pop("einsum bmk,bnk->mn")["share"])
    rows.pop("torch.abs(out=)")
    assert len(rows) == 5
    shares, times = ([float(row[column]) for row in rows.values()] for column in ("share", "us"))
    text = " ".join((DOCS / "deep_gemm.md").read_text(encoding="utf-8").split())
    assert f"took {min(times):.1f} to {max(times):.1f} us, " in text
    assert f"[{min(shares):.2f} to {max(shares):.2f} of DeepGEMM's time](" in text
    assert f"`bmk,bnk->mn`, which is two launches, took {twice:.2f} of" in text


def speed(rows: list[Row], column: str) -> float:
    return geomean([float(row[column]) for row in rows])


def test_nvfp4_of_few_and_of_128_rows() -> None:
    """The page leaves out no row of the record."""
    rows = record("blockscaled_llama8b_nvfp4", "| layer |")
    few, many = ([row for row in rows if (row["m"] == "128") == is_many] for is_many in (False, True))
    assert {row["m"] for row in few} == {"1", "8", "16", "32", "64"}
    text = (DOCS / "speed.md").read_text(encoding="utf-8")
    (on_page,) = re.findall(r"^- NVFP4 products of (.*?)^- ", text, re.MULTILINE | re.DOTALL)
    on_page = " ".join(on_page.split())
    assert on_page.startswith(
        f"1 to 64 rows: {speed(few, 'over dequantise + mm'):.1f} times as quick as dequantising and "
        f"multiplying, over {len(few)} problems."
    )
    assert f" 128 rows it is {speed(many, 'over dequantise + mm'):.1f} times" in on_page
    assert f" and {speed(many, 'over mm alone'):.2f} of the speed" in on_page
    assert f"({len(many)} problems)" in on_page


def test_numbers_are_compared_as_they_are_written() -> None:
    assert same("[1.07](x_1.md)", 1.0749)
    assert not same("1.07", 1.076)
    assert same("1,172", 1171.6)
    assert not same("94 %", 95)
