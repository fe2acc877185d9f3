"""Does the embedder know the script of a text, or does it spell out letters?"""

from __future__ import annotations

from ragstone.stages import Embedder

# English text has 3 to 5 letters to a token of the shipped embedder, German and Spanish 2.5,
# Russian 1.0: below this its similarities mean little.
FEWEST_LETTERS_PER_TOKEN = 1.5


def knows_script(embedder: Embedder, text: str) -> bool:
    letters = sum(char.isalnum() for char in text)
    return letters >= FEWEST_LETTERS_PER_TOKEN * len(embedder.token_starts(text))
