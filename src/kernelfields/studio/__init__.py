"""A backend for Label Studio: predictions for its tasks, and fits to the annotations that it submits.

``kernelfields serve MODEL --label-studio`` starts it; docs/page.md says how it is connected. It needs the extra
``page``, Starlette and uvicorn, which are loaded when it starts.
"""
