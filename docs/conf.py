"""The documentation site: ``make docs`` builds it, with every warning an error."""

project = "Messenger jobs"
author = "PIN Platform"

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
source_suffix = {".md": "markdown"}
root_doc = "index"

html_theme = "furo"
html_title = project
html_copy_source = False

# Links to headings as they work where the repository is looked at.
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]

suppress_warnings = ["myst.xref_missing"]  # of files beside this folder: tests/docs hold all links
