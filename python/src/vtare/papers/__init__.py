"""Published tables and where a measured machine stands among them."""
