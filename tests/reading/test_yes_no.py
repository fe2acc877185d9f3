def test_evidence_about_something_else_decides_nothing() -> None:
    assert not is_about("May cats enter the kitchen?", "Dogs are allowed in the garden.")
    assert not is_about(
        "Is the pool closed in November?", "The pool is closed from October to April."
    )
    assert is_about("Is the pool closed in April?", "The pool is closed from October to April.")
    assert is_about("Is smoking allowed?", "Smoking is not permitted anywhere in the building.")
