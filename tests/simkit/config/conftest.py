"""What is said about an experiment with errors."""

import pytest

from simkit import InputError, load


@pytest.fixture
def messages(tmp_path, monkeypatch):
    """What `load` says about a text in gbm.yaml."""
    monkeypatch.chdir(tmp_path)

    def find(text, overrides=()):
        (tmp_path / "gbm.yaml").write_text(text)
        with pytest.raises(InputError) as caught:
            load("gbm.yaml", overrides)
        return caught.value.problems

    return find
