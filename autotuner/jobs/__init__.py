"""What is made of many problems: models, suites, experiments, families of shapes."""
