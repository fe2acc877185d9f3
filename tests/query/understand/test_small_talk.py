"""Small talk: word for word, by the classifier, and never a real question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.query.understand.small_talk import (
    classify_small_talk,
    drop_small_talk,
    get_reply,
    match_small_talk,
)
from ragstone.settings import UnderstandSettings

THRESHOLD = UnderstandSettings().intent_confidence


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Hi!", "greeting"),
        ("hello there, how are you?", "greeting"),
        ("Thanks a lot!", "gratitude"),
        ("¡Muchas gracias!", "gratitude"),
        ("hi, thanks, bye", "farewell"),
        ("до свидания", "farewell"),
        ("What’s your name?", "chitchat"),
        ("help", "help"),
        ("你好", "greeting"),
        ("thank you 🙏", "gratitude"),
        ("ok", "chitchat"),
        ("Dzień dobry", "greeting"),
        ("好的，谢谢", "gratitude"),
        ("Teşekkürler, görüşürüz!", "farewell"),
    ],
)
def test_what_is_said_word_for_word_is_known(text: str, intent: str) -> None:
    talk = match_small_talk(text)
    assert talk is not None
    assert talk.intent == intent


@pytest.mark.parametrize(
    "text",
    [
        "hi, what is the notice period?",
        "thanks, and who signed it?",
        "help with the dome motor",
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
@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Thank you so much, you saved my week", "gratitude"),
        ("Tell me the best joke you have", "chitchat"),
        ("Ciao, a domani e buona giornata", "farewell"),
        ("çok teşekkürler, harikasınız", "gratitude"),
        ("好的，我知道了，谢谢啦", "gratitude"),
        ("Thanks, and where is the boiler room?", None),
        ("Hi, is there parking?", None),
        ("Hola de nuevo, ¿hay rampa en la entrada?", None),
        ("meteoroid", None),
        ("Are you hiring?", None),
        ("How are things going with the merger?", None),
        ("good night storage temperature", None),
        ("你们周日营业吗", None),
        ("Kargo ücreti ne kadar?", None),
        ("Guten Morgen, wo finde ich das Protokoll vom 3. Mai?", None),
        ("Сколько стоит замена фильтра", None),
    ],
)
def test_small_talk_is_told_from_questions(text: str, intent: str | None) -> None:
    talk = classify_small_talk(text)
    assert talk is not None
    assert (talk.intent if talk.probability >= THRESHOLD else None) == intent


@pytest.mark.parametrize("text", ["You are a stupid idiot", "You fucking idiot, answer me"])
def test_an_insult_is_not_thanked_for(text: str) -> None:
    talk = classify_small_talk(text)
    assert talk is None or talk.kind != "gratitude"


def test_a_long_text_is_never_small_talk() -> None:
    assert classify_small_talk("thank you so much " * 20) is None
    assert classify_small_talk("  ") is None


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("danke", "Gern geschehen."),
        ("muchas gracias", "De nada."),
        ("спасибо большое", "Пожалуйста."),
        ("谢谢", "不客气。"),
        ("thanks", "You're welcome."),
    ],
)
def test_the_reply_is_in_the_language_of_the_message(text: str, reply: str) -> None:
    assert get_reply(text) == reply


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("thanks, and for a child?", "and for a child?"),
        ("Perfect! Thank you. What is the rent?", "What is the rent?"),
        ("danke, und für Kinder?", "und für Kinder?"),
        ("no, the winter", "no, the winter"),
        ("thanks!", "thanks!"),
        ("Morning or afternoon?", "Morning or afternoon?"),
        ("thanks,\n\n   and in 2023?", "and in 2023?"),
    ],
)
def test_small_talk_before_a_question_is_dropped(text: str, rest: str) -> None:
    assert drop_small_talk(text) == rest
