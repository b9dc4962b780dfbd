"""Available bandwidth on real paths: the parts of bench/avb/real."""
