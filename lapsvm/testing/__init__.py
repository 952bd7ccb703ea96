"""Laws that implementations of an interface must keep, shipped as tests."""
