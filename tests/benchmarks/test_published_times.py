"""The page of published times: it is what the models say today, and each row is near or says why not."""

from __future__ import annotations

from benchmarks.compare import published_times


def cells() -> list[list[str]]:
    lines = published_times.RECORD.read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def test_the_page_is_what_the_models_say() -> None:
    assert published_times.RECORD.read_text(encoding="utf-8") == published_times.page()


def test_each_row_is_near_or_says_why_not() -> None:
    rows = [row for row in cells() if row[0].isdigit()]
    b300 = [row for row in rows if len(row) == 8]
    assert (len(b300), len(rows)) == (28, 57)
    for row in rows:
        ratios = (row[3], row[5], row[6]) if len(row) == 8 else (row[5],)
        apart = [ratio for ratio in map(float, ratios) if abs(ratio - 1) > published_times.TOLERANCE]
        assert not apart or row[7]
