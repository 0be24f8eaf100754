"""Labels that are written in several ways: Oslo, OSLO and oslo with a blank behind it.

They stay the labels they are, for a DOI or a case number may differ by that alone; it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def written_alike(labels: pl.Series) -> tuple[list[str], int]:
    """Labels that differ by capitals and blanks alone: the most frequent group, and how many more.

    Examples
    --------
    >>> import polars as pl
    >>> written_alike(pl.Series(["Oslo", "OSLO", "Oslo", "oslo ", "Rome", "rome", "Bonn"]))
    (['Oslo', 'OSLO', 'oslo '], 1)
    >>> written_alike(pl.Series(["Oslo", "Bonn"]))
    ([], 0)
    """
    import polars as pl

    counts = (
        labels.drop_nulls()
        .rename("label")
        .value_counts(sort=True)
        .sort(["count", "label"], descending=[True, False])
    )
    spelt = pl.col("label").str.to_lowercase().str.strip_chars().str.replace_all(r"\s+", " ")
    groups = (
        counts.with_columns(spelt.alias("spelt"))
        .group_by("spelt", maintain_order=True)
        .agg("label", pl.col("count").sum())
        .filter(pl.col("label").list.len() > 1)
        .sort("count", descending=True, maintain_order=True)
    )
    if not groups.height:
        return [], 0
    return groups["label"][0].to_list(), groups.height - 1
