"""Tools that serving does not import: tuning, benchmarking, measuring, doctor, listings."""
