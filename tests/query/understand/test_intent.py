"""Layer 0: small talk word for word, and never a real question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.understand.intent import find_loose_small_talk, match_small_talk


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


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Thank you so much, you saved my week", "gratitude"),
        ("Tell me the best joke you know", "chitchat"),
        ("Danke, das war wirklich genau die Antwort, die ich gebraucht habe", "gratitude"),
        ("Ciao, a domani e buona giornata", "farewell"),
    ],
)
def test_words_around_small_talk_leave_it_small_talk(text: str, intent: str) -> None:
    found = find_loose_small_talk(text)
    assert found is not None
    assert found.intent == intent


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, and where is the boiler room?",
        "Hi, is there parking?",
        "Hola de nuevo, ¿hay rampa en la entrada?",
        "meteoroid",
        "Are you hiring?",
        "How are things going with the merger?",
        "good night storage temperature",
        "你们周日营业吗",
    ],
)
def test_a_question_is_never_loose_small_talk(text: str) -> None:
    assert find_loose_small_talk(text) is None
