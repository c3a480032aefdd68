"""How fast mocaps is, and how its cost grows.

    python -m benchmarks              each row of docs/performance.md against the recorded one
    python -m benchmarks --record     the same, and these become the recorded ones
    python -m benchmarks --scaling    time and memory against sizes: a table and a picture

Plain clocks instead of pytest-benchmark: what is measured is a training loop from the inside, in
processes of its own for the sake of memory, each lap between two runs of the reference product.
pytest-benchmark times a function that it calls, and has no notion of a ratio.
"""
