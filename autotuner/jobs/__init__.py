"""Jobs over many problems: models, suites, experiments, families of shapes."""
