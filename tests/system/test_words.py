"""Commands are repeated in results and files: never with a password."""

from __future__ import annotations

import pytest

from autotuner.system.settings import without_passwords

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f"postgresql://me:{SECRET}@host:5432/db", "postgresql://me@host:5432/db"),
        (f"postgresql://me:{SECRET}@{SECRET}@host/db", "postgresql://me@host/db"),
        (f"postgresql://me:a/{SECRET}@host/db", "postgresql://me@host/db"),
        (f"postgresql://me:a?{SECRET}@host/db", "postgresql://me@host/db"),
        (f"postgresql+psycopg://host/db?user=me&password={SECRET}&sslmode=require", "postgresql+psycopg://host/db"),
        ("sqlite:///results/x.db", "sqlite:///results/x.db"),
    ],
)
def test_a_database_url_is_repeated_without_what_may_be_secret(given: str, kept: str) -> None:
    assert without_passwords(["autotune", "gemm", "--storage", given]) == ("autotune", "gemm", "--storage", kept)
    assert without_passwords([f"--storage={given}", "--json"]) == (f"--storage={kept}", "--json")


@pytest.mark.parametrize("word", ["--device=cuda://0?x=1", "hip://GPU-1", "--shape", "a@b:c", "--flag=--x=a:b@c"])
def test_other_words_are_repeated_as_they_are(word: str) -> None:
    assert without_passwords(["autotune", word]) == ("autotune", word)


def test_the_login_of_any_other_url_is_not_repeated() -> None:
    assert without_passwords([f"--cluster=tls://me:{SECRET}@host:8786"]) == ("--cluster=tls://me@host:8786",)
