"""What is run night after night: suites and models from one file, and a history of what they came to."""
