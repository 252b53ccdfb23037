"""Tests of finding files of the user."""

from __future__ import annotations

from ansible_collections.deeplearning.cluster.plugins.plugin_utils import source_paths


def test_the_folder_of_the_installed_collection_is_not_shown():
    own = "/venv/lib/python3.11/site-packages/ansible_collections/deeplearning/cluster/playbooks"
    assert source_paths.searched_places(["/project", own, "/project"]) == "/project"
    assert source_paths.searched_places([own]) == own
