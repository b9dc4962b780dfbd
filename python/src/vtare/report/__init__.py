"""The report: one HTML file that opens offline, the answer first, every sentence derived from measured figures."""
