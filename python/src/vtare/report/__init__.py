"""The report: one HTML file that opens offline, the answer first, every sentence derived from measured figures."""

from vtare.report.build import build
from vtare.report.write import REPORT_NAME, write_report, write_summary

__all__ = ["REPORT_NAME", "build", "write_report", "write_summary"]
