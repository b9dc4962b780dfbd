"""What a report shows of a mesh in place of the page of its instrument: the matrix of pairs, clusters and odd pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.number_text import ratio_text
from vtare.plots.mesh import cluster_name, pair_matrix
from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.layout import figure_name, key_text
from vtare.report.pages.model import Answered, Page
from vtare.report.parts import Column, Panel, Question, Table, in_words
from vtare.report.text import Shown
from vtare.sentences import answers as wording
from vtare.sentences import captions, titles
from vtare.sentences.template import FigureText, Sentence
from vtare.sentences.words import listing
from vtare.stats import write_p

if TYPE_CHECKING:
    import polars as pl

    from vtare.report.layout import Layout
    from vtare.summary import Summary
    from vtare.summary.mesh import MeshFound

_MOST_NAMES: Final = 12


def _found(summary: Summary, layout: Layout) -> list[MeshFound]:
    return [one for one in summary.meshes if one.experiment == layout.experiment.name]


def _where(summary: Summary, one: MeshFound) -> str:
    """What it is of: the figure, and the levels of factors with more than one."""
    factors = {factor.name: factor.levels for factor in summary.plan.experiment(one.experiment).factors}
    levels = [key_text(summary.level_of, key, label) for key, label in one.at.items() if len(factors[key]) > 1]
    return ", ".join([figure_name(one.quantity), *levels])


def _sentences(summary: Summary, layout: Layout) -> Answered:
    """Clusters and odd pairs of the first figure are the answer; those of the others stand in the section."""
    first: list[Sentence] = []
    later: list[Sentence] = []
    for one in _found(summary, layout):
        (later if first else first).append((*_clusters_sentence(summary, one), " ", *_odd_sentence(one)))
    return first, later


def _clusters_sentence(summary: Summary, one: MeshFound) -> Sentence:
    by, structure, written = _where(summary, one), one.structure, quantity_of(one.quantity)
    if len(structure.clusters) < 2:
        whole = structure.splits[0] if structure.splits else None
        if whole is None:
            return wording.too_few_hosts(by, len(one.hosts))
        if whole.holds:
            return wording.one_cluster(by, len(one.hosts), summary.plan.analysis.margin_percent)
        return wording.no_cluster(by, len(one.hosts), write_p(whole.p))
    within = [_block(one, k, k) for k in range(len(structure.clusters))]
    between = [
        _block(one, k, j) for k in range(len(structure.clusters)) for j in range(len(structure.clusters)) if k != j
    ]
    inside, outside = (
        float(np.nanmedian(some)) if not np.isnan(some).all() else math.nan for some in (within, between)
    )
    groups = [f"{cluster_name(k)} ({_names(one, hosts)})" for k, hosts in enumerate(structure.clusters)]
    inner, outer = (None if math.isnan(value) else FigureText(written.text(value)) for value in (inside, outside))
    return wording.clusters(by, len(one.hosts), groups, inner, outer or FigureText(""))


def _names(one: MeshFound, hosts: tuple[int, ...]) -> str:
    names = [one.hosts[host] for host in hosts[:_MOST_NAMES]]
    return listing(names) if len(hosts) <= _MOST_NAMES else f"{', '.join(names)} and {len(hosts) - len(names)} more"


def _odd_sentence(one: MeshFound) -> Sentence:
    structure = one.structure
    if not structure.tested:
        return wording.NO_PAIR_TESTED
    if structure.blocks_needed is not None:
        return wording.odd_pairs_unknown(one.blocks, structure.blocks_needed)
    if not structure.odd:
        return wording.no_odd_pair(structure.tested)
    listed = [
        f"{one.hosts[odd.first]} to {one.hosts[odd.second]} ({ratio_text(odd.ratio)})"
        for odd in structure.odd[:_MOST_NAMES]
    ]
    return wording.odd_pairs(len(structure.odd), structure.tested, listed)


def _kind(one: MeshFound, k: int, j: int) -> str:
    """The kind of a pair, by the clusters of its hosts: `A to B`, or where both ways are one `A and B`."""
    return f"{cluster_name(k)} to {cluster_name(j)}" if one.one_way else " and ".join(map(cluster_name, sorted((k, j))))


def _block(one: MeshFound, k: int, j: int) -> float:
    """The median of the pairs from a cluster to another, or within one; nan where there is none."""
    clusters = one.structure.clusters
    pairs = one.structure.medians[np.ix_(clusters[k], clusters[j])]
    return math.nan if np.isnan(pairs).all() else float(np.nanmedian(pairs))


def _questions(summary: Summary, layout: Layout) -> list[Question]:
    """One matrix for each figure and level of the other factors; the first is the main figure."""
    made = []
    for number, one in enumerate(_found(summary, layout)):
        name = slug("mesh", one.experiment, *one.at.values(), one.figure)
        drawing = pair_matrix(
            one.hosts,
            one.structure.medians,
            one.structure.clusters,
            [(odd.first, odd.second) for odd in one.structure.odd],
            name=name,
            quantity=one.quantity,
            one_way=one.one_way,
        )
        words = captions.one_way_mesh if one.one_way else captions.mesh
        caption = words(one.blocks, figure_name(one.quantity))
        title = titles.MESH if number == 0 else titles.mesh_of(_where(summary, one))
        made.append(Question(name, title, caption, (Panel(_where(summary, one), drawing),)))
    return made


def _cells(summary: Summary, layout: Layout, cells: pl.DataFrame) -> Table:
    """Every pair."""
    shown = []
    for one in _found(summary, layout):
        member = {host: k for k, hosts in enumerate(one.structure.clusters) for host in hosts}
        odd = {(pair.first, pair.second): pair for pair in one.structure.odd}
        for a in range(len(one.hosts)):
            for b in range(len(one.hosts)):
                if a == b or (not one.one_way and a > b):
                    continue
                value, usual = float(one.structure.medians[a, b]), _block(one, member[a], member[b])
                absent = math.isnan(value)
                shown.append(
                    (
                        text.words(_where(summary, one)),
                        text.words(one.hosts[a], a),
                        text.words(one.hosts[b], b),
                        text.words(_kind(one, member[a], member[b])),
                        text.figure(one.quantity, None if absent else value, wording.NO_VALUE),
                        text.ratio(None if absent else value / usual, None, None, wording.NO_VALUE),
                        Shown("odd", "true", 0, text.DIFFERS) if (a, b) in odd else Shown("", "false", 1),
                    )
                )
    columns = (
        Column("figure", "figure", numeric=False, about="what was measured, at which levels"),
        *in_words("from", "to"),
        Column("kind", "kind", numeric=False, about="the clusters of the two hosts"),
        Column("median", "median", about="over the blocks, of each run's median"),
        Column("ratio", "against its kind", about="over the median of the pairs between (or within) the same clusters"),
        Column("odd", "odd", numeric=False),
    )
    return Table(slug("pairs", layout.experiment.name), "All pairs", columns, tuple(shown))


def _tables(summary: Summary, layout: Layout) -> tuple[Table, ...]:
    meshes = _found(summary, layout)
    name = layout.experiment.name
    kinds = [
        (
            text.words(_where(summary, one)),
            text.words(cluster_name(k)),
            text.words(cluster_name(j)),
            text.words(", ".join(one.hosts[i] for i in one.structure.clusters[k])),
            text.figure(one.quantity, None if math.isnan(value) else value, "no pair"),
        )
        for one in meshes
        for k in range(len(one.structure.clusters))
        for j in range(len(one.structure.clusters))
        if one.one_way or k <= j
        for value in (_block(one, k, j),)
    ]
    odd = [
        (
            text.words(_where(summary, one)),
            text.words(one.hosts[pair.first], pair.first),
            text.words(one.hosts[pair.second], pair.second),
            text.figure(one.quantity, float(one.structure.medians[pair.first, pair.second]), wording.NO_VALUE),
            text.ratio(pair.ratio, None, None, ""),
            text.number(pair.z, ""),
            Shown(str(pair.p), repr(pair.p.adjusted), pair.p.adjusted),
            text.count(pair.n, ""),
        )
        for one in meshes
        for pair in one.structure.odd
    ]
    splits = [
        (
            text.words(_where(summary, one)),
            text.count(len(split.hosts), ""),
            text.words(" | ".join(_names(one, part) for part in split.parts)),
            text.percent(split.share, ""),
            Shown(write_p(split.p), repr(split.p), split.p),
            Shown(write_p(split.level), repr(split.level), split.level),
            text.words("split" if split.holds else "one group"),
        )
        for one in meshes
        for split in one.structure.splits
    ]
    figure = Column("figure", "figure", numeric=False, about="what was measured, at which levels")
    return (
        Table(slug("clusters", name), "Clusters, and the median of the pairs between them", (
            figure, *in_words("from", "to"),
            Column("hosts", "hosts of the first", numeric=False), Column("median", "median of the pairs"),
        ), tuple(kinds)),
        *([Table(slug("odd", name), "Odd pairs, the farthest first", (
            figure, *in_words("from", "to"),
            Column("median", "median"), Column("ratio", "against its kind"), Column("z", "robust z"),
            Column("p_adjusted", "p (adjusted)", about="of its ranks over the blocks, exact; Holm over all pairs"),
            Column("pairs", "pairs of its kind"),
        ), tuple(odd))] if odd else []),
        *([Table(slug("splits", name), "Groups of hosts that were tested for being two", (
            figure, Column("hosts", "hosts"), Column("parts", "parts", numeric=False),
            Column("share", "explained", about="part of the variance of the pairs' ranks"),
            Column("p", "p", about="of as good a split among permutations of the pairs"),
            Column("level", "held against", about="alpha times the group's share of the hosts"),
            Column("result", "result", numeric=False),
        ), tuple(splits))] if splits else []),
    )  # fmt: skip


def _about(summary: Summary, layout: Layout) -> str:
    meshes = _found(summary, layout)
    absent = max((one.absent for one in meshes), default=0)
    if not absent:
        return ""
    return wording.pairs_left_out(meshes[0].pairs, absent)


PAGE: Final = Page(sentences=_sentences, questions=_questions, cells=_cells, tables=_tables, about=_about)
