"""Random small fields, their enumeration, and the comparison of answers with it."""
