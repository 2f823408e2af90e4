"""Single paths: the first value that is not finite, values step by step, words used twice."""
