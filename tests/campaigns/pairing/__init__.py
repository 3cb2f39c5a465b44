"""Parts of the campaign of pairs: features, problems, laws, continuations, wrappers; see ../pairs.py."""
