"""How verdicts look on a terminal. It imports nothing: `history` must not wait."""

VERDICTS = {
    "win": "bold green",
    "no-winner": "bold yellow",
    "inconclusive": "yellow",
    "failed": "red",
    "interrupted": "yellow",
}
