"""What the documents say of the code is so."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MATHS = (ROOT / "docs" / "maths.md").read_text()


def resolve(dotted):
    """The object at a dotted path below mocaps."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(mocaps\.[\w.]+)`", MATHS))))
def test_maths_names_functions_that_exist(name):
    assert resolve(name) is not None


@pytest.mark.parametrize("number", range(1, 10))
def test_the_line_of_each_equation_is_marked(number):
    rows = re.findall(rf"^\| \({number}\) \|.*`(mocaps\.[\w.]+)` \|$", MATHS, re.MULTILINE)
    assert rows, f"maths.md has no row for equation {number}"
    for name in rows:
        source = inspect.getsource(resolve(name))
        assert re.search(rf"# Eq\. (\(\d\) and )?\({number}\)", source), name


def test_every_preset_field_that_differs_has_a_row_in_fidelity():
    """Where paper and released code disagree there is one field, and a row that says so."""
    import dataclasses

    from mocaps.config import preset

    text = (ROOT / "docs" / "fidelity.md").read_text()
    paper, authors = preset("paper"), preset("authors")
    for section in ("model", "loss", "disturb", "train"):
        a, b = getattr(paper, section), getattr(authors, section)
        for field in dataclasses.fields(a):
            if getattr(a, field.name) != getattr(b, field.name):
                assert f"`{section}.{field.name}`" in text, f"{section}.{field.name}"


@pytest.mark.parametrize(
    "path", ["README.md", "CONTRIBUTING.md", *map(str, ROOT.glob("docs/*.md"))]
)
def test_links_between_documents_lead_somewhere(path):
    document = ROOT / path
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{path} points to {target}"


def fenced(name):
    """The language and the text of every code block of a document."""
    return re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)


def test_the_readmes_python_runs(capsys):
    (code,) = (text for language, text in fenced("README.md") if language == "python")
    exec(compile(code, "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    printed = [line for line in lines if not line.startswith("MotionCapsules")]  # its progress
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", code, re.MULTILINE)
    assert len(promised) == len(printed) > 0
    assert all(p.startswith(line) for p, line in zip(promised, printed, strict=True))


def test_the_readmes_commands_exist():
    """Every option that README shows is one that the command's help names."""
    from mocaps.cli import app

    lines = [line for _, text in fenced("README.md") for line in text.splitlines()]
    commands = [line.split() for line in lines if line.startswith("mocaps ")]
    assert commands
    for _, name, *words in commands:
        known = {n for argument in app[name].assemble_argument_collection() for n in argument.names}
        options = {w for w in words if w.startswith("--")}
        assert options <= known, f"mocaps {name}: {options - known}"
