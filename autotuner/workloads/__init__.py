"""Many problems at once: named suites, lists of shapes and library logs, weighed by what each contributes."""
