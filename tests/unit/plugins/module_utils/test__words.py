"""Tests of the forms of words that fit a number."""

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils import _words


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_the_form_of_a_noun_fits_its_number(number, text):
    assert _words.plural(number, "node", "nodes") == text
    assert _words.form(number, "node is", "nodes are") == ("node is" if number == 1 else "nodes are")
