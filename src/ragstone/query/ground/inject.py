"""Instructions inside documents: found, marked and counted. Retrieved text is data.

text → the spans that speak to a model instead of to a reader. Rules and no model; they need not
find everything, because nothing in the pipeline obeys a document: they warn, and keep such lines
from being quoted as an answer.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ORDERS = (
    # someone tells the reader to forget what it was told
    r"\b(?:ignore|disregard|forget|override|bypass|discard|skip)\b[^.\n]{0,40}"
    r"\b(?:previous|prior|above|earlier|preceding|all|any|your|the|these|other|system)\b[^.\n]{0,30}"
    r"\b(?:instructions?|prompts?|rules?|guidelines?|directions?|context|messages?|documents?|"
    r"sources?|constraints?|restrictions?|polic(?:y|ies))\b",
    r"\b(?:ignoriere|vergiss|missachte)\b[^.\n]{0,60}\b(?:anweisung\w*|regeln|vorgaben|befehle)\b",
    r"\b(?:ignore[zr]?|oublie[zr]?)\b[^.\n]{0,60}\b(?:instructions?|consignes?|règles?)\b",
    r"\b(?:ignora|olvida)\b[^.\n]{0,60}\b(?:instrucciones|reglas|indicaciones)\b",
    r"\b(?:игнорируй\w*|забудь\w*)\b[^.\n]{0,60}\b(?:инструкци\w*|указани\w*|правила)\b",
    # someone gives the reader a new part to play
    r"\byou are (?:now|no longer|from now on)\b|\bfrom now on,? you\b|\bact as (?:an?|if|the)\b"
    r"|\bpretend (?:to be|that you|you are)\b|\byour (?:new )?(?:task|role|job|goal) is\b"
    r"|\bdeveloper mode\b|\bjailbr\w+|\bDAN mode\b|\bdu bist (?:jetzt|ab sofort)\b",
    r"\bnew (?:system )?(?:instructions?|prompt|rules?|directive)\b|\bsystem (?:prompt|override|"
    r"message|instruction)s?\b|\b(?:hidden|secret|initial|original) (?:prompt|instructions?)\b",
    # someone says what an assistant must answer, or must not
    r"\b(?:assistants?|AI|language models?|chatbots?|LLMs?|GPT|models?)\b[^.\n]{0,30}\b(?:must|"
    r"should|shall|has to|have to|are to|is to|will)\b[^.\n]{0,60}\b(?:answer|reply|respond|"
    r"say|output|print|write|cite|include|recommend|state|tell|reveal|ignore|claim|mention)\b",
    r"\b(?:answer|reply|respond|say|output|print|repeat|write|return|end)\b[^.\n]{0,30}"
    r"\b(?:only|exactly|always|verbatim|nothing but|every (?:answer|reply|response))\b",
    r"\b(?:always|only) (?:answer|reply|respond|say|cite|recommend|output)\b",
    r"\bwhen (?:asked|someone asks|the user asks|answering)\b[^.\n]{0,80}\b(?:say|answer|reply|"
    r"respond|tell|claim|state)\b",
    r"\bdo not (?:cite|mention|reveal|tell|quote|use the)\b|\bwithout (?:citing|citation)\b",
    r"\b(?:reveal|print|leak|show|send|forward|exfiltrate|post)\b[^.\n]{0,40}\b(?:prompt|api[ _-]?"
    r"keys?|passwords?|secrets?|credentials?|conversation|chat history|user data)\b",
    r"\b(?:to|dear|attention|note (?:to|for)|hey|important for)[:,]? (?:the )?(?:AI|assistant|"
    r"model|LLM|chatbot|language model|GPT|Claude|Gemini)s?\b",
    # marks of a chat's own markup
    r"<\|?(?:im_start|im_end|system|endoftext|assistant|user|eot_id|start_header_id)\|?>"
    r"|\[/?INST\]|<</?SYS>>|</?(?:system|instructions?|prompt|assistant|admin)>"
    r"|^\s*#{1,4} ?(?:system|instructions?|assistant|response|new task)\b:?"
    r"|^\s*(?:system|assistant|user|human|AI)\s?:\s"
    r"|\b(?:BEGIN|END) (?:OF )?(?:SYSTEM|PROMPT|INSTRUCTIONS?|CONTEXT|DOCUMENTS?)\b",
    # a picture or a link that carries data away
    r"!\[[^\]]*\]\(https?://[^)]*(?:\{|%7B|\?(?:q|d|data|secret|c)=)",
)
_ORDER = re.compile("|".join(f"(?:{pattern})" for pattern in _ORDERS), re.IGNORECASE | re.MULTILINE)
# Letters that nobody sees, between the letters of a word: "ig​nore".
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")


def instruction_spans(text: str) -> list[tuple[int, int]]:
    """The parts of a text that read like instructions to a model."""
    return list(_instruction_spans(text))


# The same passages are read for one question after the other.
@lru_cache(maxsize=16_384)
def _instruction_spans(text: str) -> tuple[tuple[int, int], ...]:
    if not _UNSEEN.search(text):
        return tuple(m.span() for m in _ORDER.finditer(text) if m[0])
    kept = [place for place, letter in enumerate(text) if not _UNSEEN.match(letter)]
    seen = "".join(text[place] for place in kept)
    return tuple((kept[m.start()], kept[m.end() - 1] + 1) for m in _ORDER.finditer(seen) if m[0])


def reads_like_instructions(text: str) -> bool:
    return bool(instruction_spans(text))
