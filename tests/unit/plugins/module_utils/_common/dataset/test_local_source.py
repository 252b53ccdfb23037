"""Tests of facts about data on the controller."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset import local_source
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.dataset.source import DataError


def test_a_file_on_the_controller_whose_name_breaks_the_lists_is_refused(tmp_path):
    (tmp_path / "a\nb").touch()
    with pytest.raises(DataError, match="has a name with control characters"):
        local_source.upload_facts(str(tmp_path))


@pytest.mark.parametrize("target", [".", "../source", "deep"])
def test_links_to_folders_are_not_followed(tmp_path, target):
    """With two links to its own folder, a copy of one file that follows links has 2^40 files."""
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep/a.txt").write_text("a")
    (source / "loop").symlink_to(target)
    with pytest.raises(DataError, match=rf"^dataset_source: {source}/loop is a symbolic link to a folder"):
        local_source.upload_facts(str(source))


@pytest.mark.parametrize("target", [".", "/etc", "a\nb"])
def test_names_of_links_are_shown_without_control_characters(tmp_path, target):
    (tmp_path / ("link" if "\n" in target else "a\nok: [host]")).symlink_to(target)
    with pytest.raises(DataError, match=r"^dataset_source: [ -~]* cannot be staged: '[ -~]*' has a name with control characters"):
        local_source.upload_facts(str(tmp_path))


@pytest.mark.parametrize("place", ["labels.txt", "deep/folder"])
def test_links_that_lead_out_of_the_source_are_not_followed(tmp_path, place):
    """If such links were followed, the upload would copy the controller's own files to the cluster."""
    source, secret = tmp_path / "source", tmp_path / "home"
    (source / "deep").mkdir(parents=True)
    secret.mkdir()
    (secret / "credentials").write_text("secret")
    (source / "a.txt").write_text("a")
    (source / "deep/inside").symlink_to("../a.txt")
    assert local_source.upload_facts(str(source))["size"] == 2
    (source / place).symlink_to(secret if place.endswith("folder") else secret / "credentials")
    with pytest.raises(DataError, match=rf"^dataset_source: {source / place} is a symbolic link to {secret}.*, which is outside of the"):
        local_source.upload_facts(str(source))
    link = tmp_path / "link"
    link.symlink_to(secret / "credentials")
    assert local_source.upload_facts(str(link))["single"], "the source itself may be a link, because the operator has specified it"
