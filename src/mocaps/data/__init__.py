"""Motion data: sequences of points with labels. Nothing here knows of a model."""
