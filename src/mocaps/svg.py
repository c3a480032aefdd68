"""A matplotlib Figure as small SVG text that follows a page's light or dark theme.

Matplotlib writes every colour into every element. Here the colours of `mocaps.figures` become
classes (`s-t3` is a stroke of the fourth time colour, `f-ink` a fill of the text's), coordinates
are cut to a hundredth of a point, and what all children of a group share moves to the group. A
figure of small multiples can also be cut into its panels, so that a page may reflow them.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass

import matplotlib
from matplotlib.figure import Figure

from mocaps import drawing

_NAMES = {
    drawing.INK: "ink",
    drawing.MUTED: "muted",
    drawing.FAINT: "faint",
    drawing.SHADE: "shade",
    **{colour: f"t{i}" for i, colour in enumerate(drawing.TIME)},
}
_KEPT = ("stroke-width", "stroke-dasharray", "stroke-linecap", "text-anchor", "fill-opacity")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"

# A picture that stands alone brings its ground along: its reader's page may be light while their
# system is dark, and the other way round.
_GROUND = {False: "#ffffff", True: "#0d1117"}
_LIGHT = {
    "ink": drawing.INK,
    "muted": drawing.MUTED,
    "faint": drawing.FAINT,
    "shade": drawing.SHADE,
}
_DARK = {"ink": "#e8ebef", "muted": "#9aa4b1", "faint": "#2c333d", "shade": "#49525f"}


@dataclass(frozen=True)
class Tile:
    """One panel of a figure of small multiples."""

    title: str
    svg: str


def theme(dark: bool = False) -> str:
    """The custom properties --ink, --t0 and so on, as CSS declarations."""
    colours = {**(_DARK if dark else _LIGHT)}
    times = drawing.TIME_ON_DARK if dark else drawing.TIME
    colours |= {f"t{i}": colour for i, colour in enumerate(times)}
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


def classes() -> str:
    """The CSS rules that the SVG's classes need."""
    return "".join(
        f".s-{name}{{stroke:var(--{name})}}.f-{name}{{fill:var(--{name})}}"
        for name in dict.fromkeys(_NAMES.values())
    )


def whole(figure: Figure, label: str, standalone: bool = False) -> str:
    """The figure as one <svg>; standalone, for a file of its own, it brings its style along."""
    root, _ = _tidied(figure)
    width, height = figure.get_size_inches() * 72
    style = (
        f"<style>:root{{{theme()}background:{_GROUND[False]}}}"
        f"@media(prefers-color-scheme:dark){{:root{{{theme(dark=True)}background:{_GROUND[True]}}}}}"
        f"{classes()}text{{font-family:{_FONT}}}</style>"
        if standalone
        else ""
    )
    return _element(root, (0, 0, width, height), label, style, standalone)


def tiles(figure: Figure) -> list[Tile]:
    """Every panel as an <svg> of its own, all of one size; legends are left to the page."""
    _, groups = _tidied(figure)  # which also lays the panels out
    height = figure.get_figheight() * 72
    points = 72 / figure.dpi
    panels = [ax for ax in figure.axes if (ax.get_gid() or "").startswith("panel")]
    boxes = [ax.bbox for ax in panels]
    tights = [ax.get_tightbbox() or ax.bbox for ax in panels]
    pairs = list(zip(boxes, tights, strict=True))
    # What sticks out furthest on a side sticks out of all, so that the tiles line up.
    left = max(box.x0 - tight.x0 for box, tight in pairs)
    right = max(tight.x1 - box.x1 for box, tight in pairs)
    below = max(box.y0 - tight.y0 for box, tight in pairs)
    above = max(tight.y1 - box.y1 for box, tight in pairs)
    result = []
    for ax, box, group in zip(panels, boxes, groups, strict=True):
        view = (
            (box.x0 - left) * points - 1,
            height - (box.y1 + above) * points - 1,
            (box.width + left + right) * points + 2,
            (box.height + above + below) * points + 2,
        )
        title = ax.get_title(loc="left") or ax.get_title()
        result.append(Tile(title, _element(group, view, title)))
    return result


def _element(
    root: ET.Element,
    view: tuple[float, float, float, float],
    label: str,
    style: str = "",
    standalone: bool = False,
) -> str:
    """An <svg> around what the element holds."""
    inner = "".join(ET.tostring(child, encoding="unicode") for child in root)
    name = label.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    box = " ".join(f"{value:.4g}" for value in view)
    size = f' width="{view[2]:.4g}pt" height="{view[3]:.4g}pt"' if standalone else ""
    # Inside HTML the parser knows the namespace; in a file of its own it has to be named.
    space = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    return (
        f'<svg{space}{size} viewBox="{box}" role="img" aria-label="{name}" '
        f'stroke-linejoin="round">{style}{inner}</svg>'
    )


def _tidied(figure: Figure) -> tuple[ET.Element, list[ET.Element]]:
    """The figure's SVG, small and with classes for colours, and its panels' groups in it."""
    file = io.StringIO()
    # Text stays text: it is smaller, can be read aloud, and takes the page's font.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mocaps"}):
        figure.savefig(file, format="svg", facecolor="none", metadata={"Date": None})
    root = ET.fromstring(file.getvalue())
    for parent in list(root.iter()):
        parent.tag = parent.tag.rpartition("}")[2]  # no prefixes in the text that comes out
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}defs")):
                parent.remove(child)
    panels = [g for g in root.iter("g") if g.get("id", "").startswith("panel")]
    _simplify(root)
    return root, panels


def _simplify(element: ET.Element) -> None:
    """Rewrite attributes from the leaves up, and drop what draws nothing."""
    for child in list(element):
        _simplify(child)
        empty = child.tag == "g" and len(child) == 0
        unseen = child.tag == "path" and {"class", "stroke"}.isdisjoint(child.keys())
        if empty or (unseen and child.get("fill") == "none"):
            element.remove(child)
    for name in ("id", "clip-path"):  # one page holds many pictures, so no name may clash
        element.attrib.pop(name, None)
    element.text = (element.text or "").strip() or None
    element.tail = None
    if "d" in element.attrib:
        path = re.sub(r"-?\d+\.\d+", _hundredth, element.attrib["d"])
        element.set("d", re.sub(r"\s*([MLCQz])\s*", r"\1", path).strip())
    for name in ("x", "y"):
        if name in element.attrib:
            element.set(name, f"{float(element.attrib[name]):.5g}")
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    _restyle(element)
    _hoist(element)


def _hundredth(match: re.Match[str]) -> str:
    return f"{float(match.group()):.2f}".rstrip("0").rstrip(".")


def _restyle(element: ET.Element) -> None:
    """Style text to classes for the theme's colours, attributes for the rest."""
    text = element.attrib.pop("style", "")
    style = dict(re.findall(r"([\w-]+):\s*([^;]+)", text))
    names = []
    for prefix, key in (("s", "stroke"), ("f", "fill")):
        if style.get(key) in _NAMES:
            names.append(f"{prefix}-{_NAMES[style[key]]}")
        elif key in style:
            element.set(key, style[key])
    if names:
        element.set("class", " ".join(names))
    for key in _KEPT:
        if key in style:
            element.set(key, style[key])
    size = re.search(r"([\d.]+)px", style.get("font-size", style.get("font", "")))
    if size:
        element.set("font-size", size.group(1))


def _hoist(element: ET.Element) -> None:
    """What most children say alike is said once, by their group; the others still say theirs."""
    children = list(element)
    if element.tag != "g" or not children or any(c.tag != "path" for c in children):
        return
    for key in ("fill", "stroke", *_KEPT):
        values = Counter(child.get(key) for child in children)
        value, times = values.most_common(1)[0]
        if None in values or value is None or times < 2:
            continue
        element.set(key, value)
        for child in children:
            if child.get(key) == value:
                del child.attrib[key]
