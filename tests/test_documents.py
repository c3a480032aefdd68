"""Tables in documents come from reports."""

import pytest

from mocaps.errors import InputError
from mocaps.experiments.documents import documents, fill

TEXT = "before\n<!-- table: t20 -->\n| old |\n<!-- end of table -->\nbetween\n"
TABLE = "## A title\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nA note.\n"


def test_rows_stand_in_their_place_and_nothing_else_changes(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(TEXT)
    (tmp_path / "docs" / "a.md").write_text("no table")
    files = documents(tmp_path)
    assert [f.name for f in files] == ["README.md", "a.md"]
    assert fill(files, {"t20": TABLE}) == [tmp_path / "README.md"]
    filled = (tmp_path / "README.md").read_text()
    assert filled == TEXT.replace("| old |\n", "\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n")
    assert fill(files, {"t20": TABLE}) == []


def test_an_unknown_table_is_one_sentence(tmp_path):
    (tmp_path / "README.md").write_text(TEXT.replace("t20", "t30"))
    with pytest.raises(InputError, match=r"README\.md: expected a table among t20, got 't30'"):
        fill(documents(tmp_path), {"t20": TABLE})
