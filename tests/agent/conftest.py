"""Puts this folder on the path, so that its fakes can be imported from the folders below."""

from hypothesis import settings

settings.register_profile("specs", deadline=None, max_examples=150, derandomize=True)
settings.load_profile("specs")
