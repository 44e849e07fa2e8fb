"""What serving never imports: tuning, benchmarking, measuring, doctor, listings."""
