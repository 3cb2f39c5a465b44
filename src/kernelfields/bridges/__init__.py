"""Bridges to other tools: the component of spaCy's pipelines."""
