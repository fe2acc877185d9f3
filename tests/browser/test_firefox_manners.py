"""The same in Firefox: by keyboard alone, in other languages, at the width of a phone."""

from .test_languages import (
    test_nothing_is_cut_or_covered_on_a_phone,
    test_the_chosen_language_is_remembered_and_goes_to_the_server,
)
from .test_manners import test_the_whole_way_works_by_keyboard_alone

__all__ = [
    "test_nothing_is_cut_or_covered_on_a_phone",
    "test_the_chosen_language_is_remembered_and_goes_to_the_server",
    "test_the_whole_way_works_by_keyboard_alone",
]
