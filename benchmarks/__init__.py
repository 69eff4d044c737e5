"""Speed and memory, measured apart from the tests: times are noisy, so A and B run in turn and the ratio is given."""
