"""Training with less memory than its windows take, and with features of another type."""

import shutil

import pytest
from lapsvm.pipelines.fitting.training_bags import beside_candidates


def test_models_trained_within_a_budget_are_the_same_bytes(run_copy, finished, command, made, fast_training):
    shutil.rmtree(run_copy / "models")
    result = command("train", "--out", run_copy, "--quiet", "--memory", "10K", *fast_training)
    assert result.status == 0, result.err
    assert made(run_copy, "models/*") == made(finished, "models/*")


@pytest.mark.parametrize("verb", ["train", "tune", "refine", "run"])
def test_memory_that_is_no_size_is_told_before_any_work(verb, finished, command):
    result = command(verb, "--out", finished, "--memory", "much")
    assert (result.status, result.err) == (2, "lapsvm: memory must be a size such as 8G or 500M, got 'much'.\n")


@pytest.mark.parametrize("size", ["9" * 400, "9" * 30, "2000000T"], ids=["400 digits", "30 digits", "terabytes"])
def test_memory_that_no_machine_has_is_no_size(finished, refused, size):
    said = refused("train", "--out", finished, "--memory", size)
    assert said.startswith("lapsvm: memory must be a size such as 8G or 500M, got '")
    assert len(said) < 120


def test_candidates_have_a_part_of_the_memory():
    assert beside_candidates(None, 10**9) is None
    assert beside_candidates(8 << 30, 100 << 30) == 6 << 30
    assert beside_candidates(100 << 30, 100 << 30) == 98 << 30
    assert beside_candidates(100 << 30, 2 << 30) == 99 << 30  # no more than half of the windows are copied
