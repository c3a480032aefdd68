"""The one error that the command line turns into a sentence and exit code 2."""


class InputError(ValueError):
    """What the user gave cannot be used: one sentence, what was expected, what came, and where."""
