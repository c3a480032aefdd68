"""Makes the pictures of this folder again from a trained run: python docs/pictures/make.py RUN."""

import sys
import tempfile
from pathlib import Path

from mocaps.report import write_pictures

KEPT = {"data": "motions", "explained": "explained"}

if __name__ == "__main__":
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        for path in write_pictures(sys.argv[1], Path(folder)):
            if path.stem in KEPT:
                (here / f"{KEPT[path.stem]}.svg").write_bytes(path.read_bytes())
