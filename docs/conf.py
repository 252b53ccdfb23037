# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Configures Sphinx, which builds one site from the repository's pages and the reference for modules and roles (`make docs`)."""

project = "deeplearning.cluster"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
root_doc = "docs/index"
include_patterns = ["*.md", "CHANGELOG.rst", "docs/**", "examples/*.md", "extensions/local_cloud/README.md", "roles/*/README.md"]
html_theme = "furo"
html_title = "deeplearning.cluster"
myst_heading_anchors = 4
highlight_language = "yaml+jinja"
# Labels in Ansible's own documentation that the reference links to.
suppress_warnings = ["ref.ref"]
