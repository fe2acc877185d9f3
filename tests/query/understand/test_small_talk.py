"""Small talk: word for word, by the classifier, and never a real question."""

from __future__ import annotations

import hashlib
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.understand.small_talk import (
    KINDS,
    classify_small_talk,
    detect_talk_language,
    load_model,
    match_small_talk,
    strip_small_talk,
)
from ragstone.settings import UnderstandSettings

THRESHOLD = UnderstandSettings().intent_confidence
GOLDEN_WEIGHTS = "509573b9ff50f92b"
GOLDEN: dict[str, float] = {
    "thank you so much, you saved my week": 0.9349,
    "what is the notice period?": 0.0001,
    "wie läuft dein Tag bisher?": 0.8204,
    "你们周日营业吗": 0.0053,
}


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Hi!", "greeting"),
        ("hello there, how are you?", "greeting"),
        ("Guten Morgen zusammen", "greeting"),
        ("Thanks a lot!", "gratitude"),
        ("¡Muchas gracias!", "gratitude"),
        ("hi, thanks, bye", "farewell"),
        ("до свидания", "farewell"),
        ("What’s your name?", "chitchat"),
        ("help", "help"),
        ("你好", "greeting"),
        ("thank you 🙏", "gratitude"),
        ("ok", "chitchat"),
        ("大家早上好！", "greeting"),
        ("Dzień dobry", "greeting"),
        ("好的，谢谢", "gratitude"),
        ("Teşekkürler, görüşürüz!", "farewell"),
    ],
)
def test_what_is_said_word_for_word_is_known(text: str, intent: str) -> None:
    assert match_small_talk(text) == intent


@pytest.mark.parametrize(
    "text",
    [
        "hi, what is the notice period?",
        "Hello, how long is the warranty?",
        "thanks, and who signed it?",
        "Danke, und wie lang ist die Kündigungsfrist?",
        "help with the dome motor",
        "What is the name of the observatory?",
        "Bye-laws of the association",
        "good morning meeting minutes",
        "",
        "!!!",
    ],
)
def test_one_word_more_makes_it_a_question(text: str) -> None:
    assert match_small_talk(text) is None


@given(
    st.sampled_from(["hi", "thanks", "bye", "who are you", "help", "danke"]),
    st.text(alphabet="bcdfghjklmnpqrstvwxz", min_size=4, max_size=12),
)
def test_an_unknown_word_beside_small_talk_is_never_answered_as_small_talk(
    phrase: str, word: str
) -> None:
    assert match_small_talk(f"{phrase}, {word}?") is None
    assert match_small_talk(f"{word} {phrase}") is None


# Written for this test; few of the questions are training rows too.
TALK = [
    ("Thank you so much, you saved my week", "gratitude"),
    ("Tell me the best joke you have", "chitchat"),
    ("Ciao, a domani e buona giornata", "farewell"),
    ("çok teşekkürler, harikasınız", "gratitude"),
    ("好的，我知道了，谢谢啦", "gratitude"),
]
QUESTIONS = [
    "Thanks, and where is the boiler room?",
    "Hi, is there parking?",
    "Hola de nuevo, ¿hay rampa en la entrada?",
    "meteoroid",
    "Are you hiring?",
    "How are things going with the merger?",
    "good night storage temperature",
    "你们周日营业吗",
    "Kargo ücreti ne kadar?",
    "Guten Morgen, wo finde ich das Protokoll vom 3. Mai?",
    "Vendez-vous des pièces détachées ?",
    "Сколько стоит замена фильтра",
]


@pytest.mark.parametrize(("text", "intent"), TALK)
def test_small_talk_in_other_words_is_recognised(text: str, intent: str) -> None:
    found = classify_small_talk(text)
    assert found is not None
    assert found.probability >= THRESHOLD
    assert found.intent == intent


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_stays_below_the_threshold(text: str) -> None:
    found = classify_small_talk(text)
    assert found is not None
    assert found.probability < THRESHOLD


@pytest.mark.parametrize("text", ["You are a stupid idiot", "You fucking idiot, answer me"])
def test_an_insult_is_not_thanked_for(text: str) -> None:
    found = classify_small_talk(text)
    assert found is None or found.kind != "gratitude"


def test_case_accents_and_stretched_letters_do_not_matter() -> None:
    model = load_model()
    plain = model.compute_probabilities("cuando abris? holaa")
    assert np.array_equal(plain, model.compute_probabilities("Cuándo ABRÍS? holaaaaa"))


def test_a_long_text_is_never_small_talk() -> None:
    assert classify_small_talk("thank you so much " * 20) is None
    assert classify_small_talk("  ") is None


@pytest.mark.parametrize("text", ["?", "🙂", "\u0301", "a", "١٢٣", "\ud7ff" * 200])
def test_any_text_has_a_probability(text: str) -> None:
    found = load_model().compute_probabilities(text)
    assert found.sum() == pytest.approx(1)
    assert np.isfinite(found).all()


def test_the_shipped_weights_are_the_fitted_ones() -> None:
    """Golden scores: a change of the weights or of the pieces must be meant."""
    model = load_model()
    assert model.weights.shape == (len(model.hashes), len(KINDS))
    assert model.weights.dtype == np.int8
    file = resources.files("ragstone.query.understand").joinpath("small_talk.npz")
    assert len(file.read_bytes()) <= 600_000
    assert hashlib.sha256(model.weights.tobytes()).hexdigest()[:16] == GOLDEN_WEIGHTS
    for text, probability in GOLDEN.items():
        assert 1 - model.compute_probabilities(text)[0] == pytest.approx(probability, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("vielen lieben Dank auch", "german"),
        ("muchas gracias por todo, de verdad", "spanish"),
        ("çok teşekkür ederim", "turkish"),
        ("спасибо, очень помогли", "russian"),
        ("谢谢你啦", "chinese"),
        ("zyxw", None),
    ],
)
def test_the_language_of_small_talk_is_known(text: str, language: str | None) -> None:
    assert detect_talk_language(text) == language


STRIPPED = """
thanks, and for a child? | and for a child?
ok great, and in 2023? | and in 2023?
Perfect! Thank you. What is the rent? | What is the rent?
thanks and in 2023? | and in 2023?
and in 2023? Thanks! | and in 2023?
danke, und für Kinder? | und für Kinder?
no, the winter | no, the winter
thanks! | thanks!
Morning or afternoon? | Morning or afternoon?
What is the rent? | What is the rent?
"""


@pytest.mark.parametrize("line", STRIPPED.strip().splitlines())
def test_small_talk_around_a_question_is_taken_off(line: str) -> None:
    text, rest = (part.strip() for part in line.split("|"))
    assert strip_small_talk(text) == rest


def test_a_message_with_much_white_space_costs_little() -> None:
    assert strip_small_talk("a," + "\n" * 1_900 + "x") == "a," + "\n" * 1_900 + "x"
    assert strip_small_talk("thanks,\n\n   and in 2023?") == "and in 2023?"
