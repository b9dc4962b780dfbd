"""Files of a store that may have come from somebody else, or been damaged since: read, checked and written safely."""
