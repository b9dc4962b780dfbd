"""What the lab prints on a terminal. Nothing else of `campaign`, `plan` and `overhead` prints."""
