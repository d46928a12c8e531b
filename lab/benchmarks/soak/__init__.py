"""Hours of a steady load, every process sampled, and a judgement whether anything grows: see `__main__`."""
