"""A backend for Label Studio: predictions for its tasks, and fits to the annotations that it submits.

``kernelfields serve MODEL --label-studio`` starts it; docs/page.md explains the connection. Starlette and uvicorn
(extra ``page``) are imported when it starts.
"""
