"""One problem: its candidates, the search over them, the verdict, what is shipped."""
