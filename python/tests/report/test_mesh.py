"""The report of a mesh: the matrix of pairs, clusters and odd pairs, in place of what is shown of cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from mesh_store import MeshRecipe, write_mesh_store
from page import plain as words_of

from vtare.plots.mesh import cluster_name
from vtare.report.build import render
from vtare.report.content import Content, content_of
from vtare.sentences.template import plain
from vtare.summary import Summary, summarise

ODD = "h1 to h2"


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    recipe = MeshRecipe(hosts=6, odd={ODD: 2.0}, blocks=5)
    return summarise(write_mesh_store(tmp_path_factory.mktemp("mesh") / "store", recipe))


@pytest.fixture(scope="module")
def content(summary: Summary) -> Content:
    return content_of(summary)


def test_clusters_and_the_odd_pair_are_the_answer(content: Content) -> None:
    (first,) = map(plain, content.answer.sentences)
    assert first.startswith(
        "By the round-trip time, the 6 hosts form 2 clusters: A (h1, h3 and h5); B (h2, h4 and h6); it is "
    )
    assert " within them and " in first
    assert (
        " between them. 1 of the 9 pairs tested is odd, in brackets against the pairs of the same kind: h1 to h2 ("
        in first
    )


def test_a_mesh_has_no_comparisons_of_cells_and_no_usual_figures(summary: Summary, content: Content) -> None:
    assert len(summary.comparisons) == summary.outliers.height == 0
    (part,) = (one for one in content.sections if one.id.startswith("experiment-"))
    cells, *tables = part.tables()
    assert [question.id for question in content.questions()] == ["mesh-delay-median"]
    assert [table.id for table in tables] == ["clusters-delay", "odd-delay", "splits-delay"]
    assert len(cells.rows) == 15
    assert content.main is None


def test_the_matrix_has_its_pairs_as_data_and_in_words(content: Content) -> None:
    (drawing,) = content.drawings()
    assert drawing.data.height == 15
    odd = drawing.data.filter(drawing.data["odd"])
    assert odd.select("from", "to", "cluster_from", "cluster_to").rows() == [("h1", "h2", "A", "B")]
    assert drawing.data["median_ns"].null_count() == 0
    assert drawing.text.startswith("Matrix of the pairs of 6 hosts, median ")
    assert "clusters A: h1, h3, h5; B: h2, h4, h6. odd pairs: h1 to h2 1." in drawing.text


def test_the_page_names_rounds_and_not_all_pairs(content: Content) -> None:
    words = " ".join(words_of(render(content)).split())
    assert "15 pairs of hosts, in rounds in which no host is used twice" in words
    assert "share the CPUs of one machine" not in words
    assert "the two hosts of a pair of the fleet" in words


def test_names_of_clusters_go_on_after_z() -> None:
    assert [cluster_name(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_noise_alone_is_stated_as_such(tmp_path: Path) -> None:
    recipe = MeshRecipe(hosts=5, clusters=1, odd={}, blocks=2, seed=3)
    found = content_of(summarise(write_mesh_store(tmp_path / "store", recipe)), figures=False)
    (first,) = map(plain, found.answer.sentences)
    assert first.startswith(
        "By the round-trip time, no cluster is named: noise explains how differently the 5 hosts see "
    )
    assert first.endswith("No pair could be found odd with 2 blocks: it takes 3 or more, whatever was measured.")
