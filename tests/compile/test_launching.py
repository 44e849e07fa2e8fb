"""What kernels ask of CUDA when they are launched, without a GPU: compiled objects, linked with a CUDA
runtime that answers as it is told (`launching.cc`)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from compiled_kernels import CUTLASS, GENERATED, HOPPER, LEAN

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.compile.store import Store
from tilewright.declarations.table import Table

pytestmark = pytest.mark.compile

SMS, SHARED, RESERVED, MOST = 132, 233472, 1024, 232448  # of an H200, as launching.cc says
QUANTIZE = "quantize_sm90_nvfp4_bf16_vector"
WIDE = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
PLAIN = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x88x64_lean_coop_swap"
SPLIT = "gemm_sm90_bf16_bf16_f32_bf16_tn_64x72x128_lean_coop_swap"
GATED = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop_silu_mul"
GATED_GENERAL = GATED.replace("128x128x64", "128x256x64")
SCALED = "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_64x16x256_swap"
ALONG_K = "grouped_gemm_sm90_e4m3_e4m3_f32_1x128_1x128_128x104x128"
MN_ALONG_K = "grouped_gemm_sm90_bf16_bf16_f32_nt_128x128x64"
STREAM = "gemm_sm90_bf16_bf16_f32_bf16_tn_16x8x64_stream_coop_swap"
HOST = r'(?m)^#include "(tilewright/\w+/\w*host\.hpp)"$'  # in a table: the host code of its units
INVALID_VALUE, INSUFFICIENT_DRIVER, UNAVAILABLE, OUT_OF_RESOURCES = 1, 35, 46, 701
INVALID_CLUSTER_SIZE = 912
NOT_SUPPORTED, WORKSPACE_MISSING = -1, -2

# The cases of a k that is split in a cluster, besides the simplest.
SPLITS = tuple(
    f"splits_{case}" for case in ("in_clusters", "of_waves", "of_batch", "scaled", "misaligned", "odd")
)

Case = dict[str, int]
Launch = Callable[..., dict[str, list[Case]]]


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Runs a kernel's cases, and problems (m, n, k, splits) of one's own; what was seen, by the case."""
    toolchain, folder = find_toolchain(), tmp_path_factory.mktemp("launching")
    programs: dict[str, Path] = {}
    store = Store()

    def program(name: str) -> Path:
        if name not in programs:
            families = ("blockscaled_gemm", "grouped_gemm", "gemm", "quantize")
            family = next(word for word in families if name.startswith(word))
            (source,) = GENERATED.glob(f"*/{name}.cu")
            table = Table.read(source.with_name("table.json"))
            table_text = source.with_name("table.cc").read_text()
            report = build([table], frozenset([name]), store=store)
            report.raise_for_failures()
            entry = store.entry(report.to_json()["kernels"][0]["key"])
            assert entry is not None
            programs[name] = folder / name
            command = [
                *toolchain.host, "-std=c++17", f"-DKERNEL=tilewright_{name}", f"-DFAMILY={family}",
                f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
                *(f'-DHOST="{header}"' for header in re.findall(HOST, table_text)),
                *(["-DLEAN"] if "_lean_" in name else []),
                *(["-DGATED"] if name.endswith("_silu_mul") else []),
                str(Path(__file__).with_name("launching.cc")), str(entry.object), "-o", str(programs[name]),
            ]  # fmt: skip
            subprocess.run(command, check=True)
        return programs[name]

    def run(name: str, *problems: tuple[int | str, ...]) -> dict[str, list[Case]]:
        words = [str(number) for problem in problems for number in problem]
        done = subprocess.run([str(program(name)), *words], capture_output=True, text=True, check=True)
        actual: dict[str, list[Case]] = {}
        for line in done.stdout.splitlines():
            case, *facts = line.split()
            actual.setdefault(case, []).append(
                {key: int(value) for key, value in (fact.split("=") for fact in facts)}
            )
        return actual

    return run


@pytest.fixture(params=[HOPPER, CUTLASS, LEAN, QUANTIZE])
def cases(request: pytest.FixtureRequest, launch: Launch) -> dict[str, Case]:
    return {name: rows[0] for name, rows in launch(request.param).items()}


def test_a_failed_launch_leaves_no_error_behind(cases: dict[str, Case]) -> None:
    """The next check of an innocent kernel would find it."""
    assert all(case["left"] == 0 for case in cases.values()), cases
    failed = {name: case["status"] for name, case in cases.items() if case["status"] != 0}
    assert failed.pop("map_refused", INVALID_VALUE) == INVALID_VALUE
    assert failed == {
        "no_driver": INSUFFICIENT_DRIVER,
        "attribute_refused": INVALID_VALUE,
        "no_context_to_be_had": UNAVAILABLE,
        "launch_refused": OUT_OF_RESOURCES,
        "impossible": NOT_SUPPORTED,
    }


def test_nothing_is_launched_but_what_can_run(cases: dict[str, Case]) -> None:
    """Not what `can_implement` refuses, and not on a tensor map that the driver refused."""
    launched = {name for name, case in cases.items() if case["launched"]}
    assert launched - {"map_refused"} == {
        "first", "again", "no_context", "another_context", "launch_refused", "after_map_refused",
    }  # fmt: skip
    with_maps = cases["first"]["encoded"] > 0
    assert ("map_refused" in launched) == (not with_maps)
    assert cases["impossible"]["encoded"] == 0


def test_a_context_is_bound_only_where_none_is_current(cases: dict[str, Case]) -> None:
    """The one that is current, also one that is not the device's own, stays."""
    assert {name for name, case in cases.items() if case["bound"]} == {"no_context", "no_context_to_be_had"}
    assert all(case["homeless"] == 0 for case in cases.values()), "a tensor map was encoded without a context"


def test_a_context_is_asked_once_to_allow_a_kernel_its_shared_memory(cases: dict[str, Case]) -> None:
    asked = {name for name, case in cases.items() if case["allowed"]}
    # A refusal is not remembered; `launch_refused` is back in the first context, which has been asked.
    assert asked == {"attribute_refused", "first", "another_context"}
    assert all(case["unknown"] == 0 for case in cases.values()), "the kernel of another context was launched"
    assert all(cases["first"]["most"] >= case["smem"] for case in cases.values())


def fit(smem: int) -> int:
    """Thread blocks with so much dynamic shared memory that an SM holds."""
    return SHARED // (smem + RESERVED)


@pytest.mark.parametrize("splits", [1, 2, 4, 8])
def test_a_grid_is_spread_over_the_sms(launch: Launch, splits: int) -> None:
    """An SM takes no more thread blocks than it gets when all SMs, or what clusters can cover, are used."""
    covered = {1: SMS, 2: SMS, 4: 128, 8: 128}[splits]  # at one thread block an SM
    columns = [128, 128 * covered // splits, 128 * (covered // splits + 1), 128 * (3 * covered // splits)]
    problems = [(16, n, 4096, splits) for n in columns]
    rows = launch(HOPPER, *problems)["problem"]
    own = launch(HOPPER)["first"][0]
    at_most = fit(min(row["smem"] for row in rows))
    assert at_most >= 2  # else this shows nothing
    for row in rows:
        share = -(-row["blocks"] // covered)
        assert row["status"] == 0
        assert row["cluster"] == splits
        assert row["smem"] <= MOST
        assert fit(row["smem"]) == min(share, at_most), row
        if share < at_most:  # the least for which no SM takes one more
            assert fit(row["smem"] - 1) == share + 1, row
    assert rows[0]["blocks"] < covered
    assert own["pdl"] == 1


def test_kernels_whose_thread_blocks_share_sms_by_design_ask_for_no_more(launch: Launch) -> None:
    table = Table.read(GENERATED / "quantize" / "table.json")
    rows = launch(QUANTIZE, (16, 0, 4096, 1), (128, 0, 14336, 1))["problem"]
    assert {row["smem"] for row in rows} == {table[QUANTIZE].facts["smem_bytes"]}


@pytest.fixture(params=[(name, sms) for name in (CUTLASS, LEAN) for sms in (SMS, 16)], ids=str)
def contexts(request: pytest.FixtureRequest, launch: Launch) -> dict[str, list[Case]]:
    """What persistent kernels do in contexts of 132 and of 16 SMs, when the one of so many comes first."""
    name, sms = request.param
    return launch(name, ("contexts", sms))


def test_a_grid_is_as_large_as_its_context(contexts: dict[str, list[Case]]) -> None:
    """What the driver says of one context holds for no other: whichever comes first, neither a green context
    nor the primary one gets the grid of the other."""
    for name, blocks in (("primary", SMS), ("green", 16), ("green_stream", 16), ("three_sms", 3)):
        assert {case["blocks"] for case in contexts[name]} == {blocks}, name
        assert {case["status"] for case in contexts[name]} == {0}, name
    assert [case["unknown"] for case in contexts["primary"] + contexts["green"]] == [0] * 4


def test_a_green_contexts_sms_bound_its_grids(contexts: dict[str, list[Case]]) -> None:
    """Where a driver counts clusters on the whole GPU, too: the context's own resource says how many SMs it
    has. Its stream may be used while another context is current."""
    assert contexts["green_stream_by_sms"][0]["blocks"] == 32


def test_a_context_is_asked_once(contexts: dict[str, list[Case]]) -> None:
    first, again = contexts["primary"]
    assert first["asked"] > 0
    assert again["asked"] == again["allowed"] == 0


def test_a_handle_that_is_used_again_is_another_context(contexts: dict[str, list[Case]]) -> None:
    """The function of the destroyed context is none of the new one's (`cuCtxGetId` tells them apart)."""
    (reused,) = contexts["reused_handle"]
    assert reused["status"] == 0
    assert reused["allowed"] > 0
    assert reused["asked"] > 0


def test_no_more_clusters_are_launched_than_the_driver_says(launch: Launch) -> None:
    """33 clusters of four would cover 132 SMs, and the parts of the GPU hold 32."""
    (case,) = launch(LEAN, ("contexts", SMS))["cluster_of_four"]
    assert (case["status"], case["cluster"], case["blocks"]) == (0, 4, 128)


def test_clusters_take_no_more_sms_than_the_caller_allows(launch: Launch) -> None:
    cases = launch(LEAN, ("contexts", SMS))
    for name, blocks in (
        ("cluster_of_four_for_18_sms", 16),
        ("cluster_of_four_for_3_sms", 4),
    ):  # one at least
        (case,) = cases[name]
        assert (case["status"], case["cluster"], case["blocks"]) == (0, 4, blocks), name


def test_a_cluster_that_never_runs_is_not_launched(launch: Launch) -> None:
    cases = launch(LEAN, ("contexts", SMS))
    (runs,) = cases["cluster_of_eight"]
    # On the four SMs the driver counts the clusters of the whole GPU.
    for name in ("cluster_of_eight_on_three_sms", "cluster_of_eight_on_four_sms"):
        (refused,) = cases[name]
        assert (refused["status"], refused["launched"], refused["left"]) == (INVALID_CLUSTER_SIZE, 0, 0)
    assert (runs["status"], runs["cluster"], runs["blocks"]) == (0, 8, 128)


def test_a_workspace_that_is_missing_is_not_launched_without(launch: Launch) -> None:
    """By CUTLASS's adapter, and by that of our own kernels."""
    for name in (CUTLASS, LEAN):
        cases = launch(name, ("contexts", SMS))
        (case,) = cases["without_workspace"]
        needs = case["workspace"] > 0
        assert (case["status"], case["launched"]) == ((WORKSPACE_MISSING, 0) if needs else (0, 1))


@pytest.mark.parametrize("swapped", [False, True], ids=["plain", "swapped"])
def test_which_strides_a_lean_kernel_takes_and_its_order_of_tiles(launch: Launch, swapped: bool) -> None:
    cases = launch(WIDE + "_swap" * swapped, ("lean",))
    assert [case["status"] for case in cases["rows_at_8_bytes"]] == [NOT_SUPPORTED] * 4
    assert [case["status"] for case in cases["rows_at_16_bytes"]] == [0] * 4
    # Along m and n as the caller sees them; a kernel of swapped operands sees them the other way round.
    assert [case["down"] for case in cases["raster"]] == ([0, 1] if swapped else [1, 0])
    assert {case["group"] for case in cases["raster"]} == {4}


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        (STREAM, [NOT_SUPPORTED] * 2),
        (LEAN, [INVALID_VALUE] * 2),
        (CUTLASS, [INVALID_VALUE] * 2),
        (HOPPER, [INVALID_VALUE] * 2 + [NOT_SUPPORTED] * 2),
        (QUANTIZE, [NOT_SUPPORTED] * 4),
    ],
)
def test_a_c_callers_misaligned_operand_is_refused(launch: Launch, name: str, statuses: list[int]) -> None:
    """By the kernel's host where threads load it in wide words, which would fault, and by the driver where
    TMA does. Each operand in turn."""
    cases = launch(name, ("misaligned",))
    assert [case["status"] for case in cases["misaligned"]] == statuses
    assert {case["launched"] for case in cases["misaligned"]} == {0}
    assert [(case["status"], case["launched"]) for case in cases["aligned"]] == [(0, 1)]


def test_tma_stores_no_more_of_a_row_than_whole_vectors_of_it(launch: Launch) -> None:
    """TMA writes 16 bytes at a time: the last column of 1001 is stored by threads, or what lies behind it in
    memory would be overwritten."""
    (case,) = launch(LEAN, ("layouts",))["rows_apart"]
    assert (case["status"], case["launched"], case["row"]) == (0, 1, 2000)


def test_a_c_that_tma_cannot_read_is_read_by_threads(launch: Launch) -> None:
    cases = launch(LEAN, ("layouts",))
    (aligned,), (misaligned,) = cases["aligned_c"], cases["misaligned_c"]
    assert [(case["status"], case["launched"]) for case in (aligned, misaligned)] == [(0, 1)] * 2
    assert misaligned["encoded"] == aligned["encoded"] - 1


def test_parts_of_k_are_not_launched_without_their_workspace(launch: Launch) -> None:
    cases = launch(LEAN, ("layouts",))
    (parts,), (refused,) = cases["parts"], cases["parts_without_workspace"]
    assert parts["workspace"] > 0
    assert (parts["status"], parts["launched"]) == (0, 2)
    assert (refused["status"], refused["launched"], refused["encoded"]) == (WORKSPACE_MISSING, 0, 0)


@pytest.mark.parametrize(("n", "splits", "blocks"), [(8, 1, 1), (1000, 1, 63), (1008, 2, 126), (1009, 1, 64)])
def test_the_last_columns_have_a_thread_block(launch: Launch, n: int, splits: int, blocks: int) -> None:
    """A thread block of a kernel of few rows has 16 columns of D."""
    (case,) = launch(STREAM, (4, n, 1024, splits))["problem"]
    assert (case["status"], case["blocks"], case["cluster"]) == (0, blocks, splits)


def test_stream_k_fits_its_context_and_its_workspace(launch: Launch) -> None:
    """The caller's workspace was sized for 132 SMs. On 16, no more of it is used than there is, and no more
    thread blocks run than can wait for one another."""
    cases = launch(CUTLASS, ("contexts", 16))
    on, for_16 = cases["on_16"], cases["for_16"]
    assert all(case["status"] == 0 and 0 < case["blocks"] <= 16 for case in on + for_16)
    assert all(case["cleared"] <= case["workspace"] for case in on + for_16)
    larger = [here for here, there in zip(on, for_16, strict=True) if there["workspace"] > here["workspace"]]
    assert larger, "no problem takes more of a workspace on 16 SMs than on 132"
    assert all(case["cleared"] == 0 for case in larger)
    assert any(case["cleared"] > 0 for case in on), "no problem was cut by stream-K"


def test_forms_are_launched_without_clusters_and_other_tactics_with_them(launch: Launch) -> None:
    """No form has code for splits of k, an addend or heads with gaps, and each has a copy with code for
    clusters (grouped_gemm/form.hpp)."""
    cases = launch(SCALED, ("forms",))
    expected = {"lone": 0, "cluster": 2, "splits": 2, "addend": 1, "heads": 1}
    assert {name: {row["cluster"] for row in rows} for name, rows in cases.items()} == {
        name: {cluster} for name, cluster in expected.items()
    }
    for row in (row for rows in cases.values() for row in rows):
        assert (row["status"], row["launched"], row["pdl"]) == (0, 1, 1)


def test_products_in_clusters_have_forms_of_their_own(launch: Launch) -> None:
    """Dense products, row indices, counts and ends, in this order."""
    cases = launch(SCALED, ("forms",))
    codes = {name: [row["code"] for row in rows] for name, rows in cases.items()}
    (general,) = {code for name in ("splits", "addend", "heads") for code in codes[name]}
    for name in ("lone", "cluster"):
        assert codes[name][2] == codes[name][3]
    assert len({general, *codes["lone"], *codes["cluster"]}) == 7


def test_thread_blocks_make_the_maps_of_groups_along_k_unless_threads_add_c(launch: Launch) -> None:
    """A form makes them (grouped_gemm/along_k.hpp) where TMA stores D, or adds to it. Other products run the
    general code, behind a kernel that makes them."""
    cases = {name: case for name, (case,) in launch(ALONG_K, ("along_k",)).items()}
    missing = cases.pop("without_workspace")
    assert (missing["status"], missing["launched"]) == (WORKSPACE_MISSING, 0)
    assert {case["status"] for case in cases.values()} == {0}
    assert {name: case["launched"] for name, case in cases.items()} == {
        "stored": 1, "cluster": 1, "added": 1, "many": 1, "dense": 1, "apart": 2, "another_c": 2,
    }  # fmt: skip
    clusters = {name: case["cluster"] for name, case in cases.items()}
    assert clusters == {**dict.fromkeys(clusters, 0), "cluster": 2, "apart": 1, "another_c": 1, "dense": 1}
    codes = {name: case["code"] for name, case in cases.items()}
    assert codes["stored"] == codes["added"] == codes["many"]
    assert codes["dense"] == codes["apart"] == codes["another_c"]
    assert len({codes[name] for name in ("stored", "cluster", "dense")}) == 3
    maps_of_groups, maps_of_thread_blocks = 2 * 128, 8 * 2 * 128
    room = 3 * SMS * maps_of_thread_blocks
    expected = dict.fromkeys(cases, room) | {"many": 20000 * maps_of_groups, "dense": 0}
    assert {name: case["workspace"] for name, case in cases.items()} == expected


def test_groups_of_mn_major_operands_have_a_form_unless_threads_add_c(launch: Launch) -> None:
    """The form (grouped_gemm/mn_along_k.hpp) needs no maps of groups, and so no workspace."""
    cases = {name: case for name, (case,) in launch(MN_ALONG_K, ("along_k",)).items()}
    assert {(case["status"], case["launched"], case["workspace"]) for case in cases.values()} == {(0, 1, 0)}
    clusters = {name: case["cluster"] for name, case in cases.items()}
    assert clusters == {**dict.fromkeys(clusters, 0), "cluster": 2, "apart": 1, "another_c": 1, "dense": 1}
    codes = {name: case["code"] for name, case in cases.items()}
    assert codes["stored"] == codes["added"] == codes["many"] == codes["without_workspace"]
    assert codes["dense"] == codes["apart"] == codes["another_c"]
    assert len({codes[name] for name in ("stored", "cluster", "dense")}) == 3


def codes_of(cases: dict[str, list[Case]]) -> dict[str, set[int]]:
    """The functions that each case launched. They were launched, with the programmatic attribute."""
    for row in (row for rows in cases.values() for row in rows):
        assert (row["status"], row["pdl"]) == (0, 1)
    return {name: {row["code"] for row in rows} for name, rows in cases.items()}


def clusters_of(cases: dict[str, list[Case]]) -> dict[str, set[int]]:
    return {name: {row["cluster"] for row in rows} for name, rows in cases.items()}


@pytest.mark.parametrize("name", [PLAIN, GATED])
def test_plain_products_run_forms_and_all_others_the_general_code(launch: Launch, name: str) -> None:
    """gemm/plain_form.hpp, gemm/gated_plain_form.hpp: there is a form for each set of operands that a cluster
    shares, and the one that shares none is launched without clusters. None has code for factors, splits of k,
    C, a bias, or a D that TMA does not store. Parts of k are added up by a kernel of their own, which is the
    last that is seen."""
    cases = launch(name, ("forms",))
    expected = {"lone": 0, "down": 2, "four_down": 4, "cluster": 2, "four_across": 4, "square": 4}
    expected |= {"factor": 2, "splits": 2}
    parts = dict.fromkeys(("parts", "parts_in_clusters", "parts_of_waves", "parts_of_batch"), 1)
    expected |= {"addend": 1, "misaligned": 1} | ({} if name == GATED else {**parts, "odd": 1})
    if name != GATED:
        expected |= dict.fromkeys(SPLITS, 2) | {"splits_in_clusters": 4}
    assert clusters_of(cases) == {case: {cluster} for case, cluster in expected.items()}
    codes = codes_of(cases)
    general = codes["addend"]
    assert {row["first_code"] for case in parts.keys() & cases.keys() for row in cases[case]} <= general
    assert len(general) == 1
    for case in {"factor", "splits", *SPLITS, "misaligned", "odd"} & codes.keys():
        assert codes[case] == general
    assert codes["down"] == codes["four_down"]
    assert codes["cluster"] == codes["four_across"]
    forms = codes["lone"] | codes["down"] | codes["cluster"] | codes["square"]
    assert len(general | forms | codes.get("parts", set())) == (5 if name == GATED else 6)


@pytest.mark.parametrize("name", [PLAIN, GATED])
def test_a_form_whose_last_wave_is_part_full_is_launched_in_clusters(launch: Launch, name: str) -> None:
    """A wave has 132 thread blocks; part full is from a twelfth to four fifths, behind a full one."""
    cases = launch(name, ("waves",))
    expected = {"66": 0, "132": 0, "142": 0, "143": 1, "237": 1, "238": 0, "264": 0, "330": 1}
    assert clusters_of(cases) == {case: {cluster} for case, cluster in expected.items()}
    assert len(set().union(*codes_of(cases).values())) == 1


def test_parts_of_one_wave_run_the_split_form(launch: Launch) -> None:
    """gemm/split_form.hpp: a thread block for each of 16 tiles and each part. Launches of several waves or of
    a batch run the general code. The kernel that adds the parts up is the same."""
    cases = launch(SPLIT, ("forms",))
    (general,) = codes_of(cases)["addend"]
    first = {name: (rows[0]["first_blocks"], rows[0]["deep"]) for name, rows in cases.items()}
    assert first["parts"] == first["parts_in_clusters"] == (32, 2)
    assert first["parts_of_waves"] == (132, 1)
    codes = {name: rows[0]["first_code"] for name, rows in cases.items()}
    assert codes["parts"] == codes["parts_in_clusters"] != general
    assert codes["parts_of_waves"] == codes["parts_of_batch"] == general
    added = {name: rows[0]["code"] for name, rows in cases.items() if name.startswith("parts")}
    assert len(added) == 4
    assert len({*added.values()}) == 1
    assert general not in added.values()


def test_k_that_a_cluster_splits_in_one_wave_runs_a_form_of_its_own(launch: Launch) -> None:
    """gemm/split_form.hpp: a thread block for each of 16 tiles and each k range. Launches of several waves,
    of a batch, and those whose D is not the sum alone or not aligned run the general code."""
    cases = launch(SPLIT, ("forms",))
    codes = codes_of(cases)
    (general,) = codes["addend"]
    assert codes["splits"] == codes["splits_in_clusters"]
    assert len(codes["splits"] | {general} | {row["first_code"] for row in cases["parts"]}) == 3
    blocks = {
        name: {(row["first_blocks"], row["deep"]) for row in cases[name]} for name in ("splits", *SPLITS)
    }
    assert blocks["splits"] == blocks["splits_in_clusters"] == {(32, 1)}
    assert blocks["splits_of_waves"] == {(132, 1)}
    for case in set(SPLITS) - {"splits_in_clusters"}:
        assert codes[case] == {general}, case


def test_gated_products_without_forms_run_in_clusters(launch: Launch) -> None:
    """They are no plain forms, although they have no sums either (lean_host.hpp)."""
    cases = launch(GATED_GENERAL, ("forms",))
    expected = {"lone": 1, "down": 2, "four_down": 4, "cluster": 2, "four_across": 4, "square": 4}
    expected |= {"factor": 2, "splits": 2}
    expected |= {"addend": 1, "misaligned": 1}
    assert clusters_of(cases) == {case: {cluster} for case, cluster in expected.items()}
    assert len(set().union(*codes_of(cases).values())) == 1
