"""What a report says of available bandwidth: how near the truth, how sure, how dear, how quick."""

from __future__ import annotations

from vtare.report.bandwidth.answer import sentences
from vtare.report.bandwidth.figures import questions
from vtare.report.bandwidth.table import cell_table, method_lines

__all__ = ["cell_table", "method_lines", "questions", "sentences"]
