"""The simulated cluster: exact answers whatever is lost, and a clock that slow and lost workers move."""

from dataclasses import replace

import numpy as np
import pytest
import simulated_cluster as sim

from lapsvm.bags import Bags

SHARDS, WORKERS = 24, 4


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return folder, sim.draw(folder, SHARDS)[:3]


def trained(drawn, **changes):
    folder, labels = drawn
    cluster = sim.SimulatedCluster(WORKERS, replace(sim.Machine(), **changes), 100.0, 10.0)
    weights, counts = sim.train(Bags.open(folder, sim.SET, memory=1 << 30, cluster=cluster), labels)
    return cluster, weights, counts


def test_weights_are_those_of_training_in_one_process_whatever_is_lost(drawn):
    folder, labels = drawn
    here, _ = sim.train(Bags.open(folder, sim.SET), labels)
    for changes in ({}, {"spread": 0.5, "straggling": 0.1}, {"lost": 0.05, "boot": 0.1}):
        cluster, weights, _ = trained(drawn, **changes)
        np.testing.assert_array_equal(weights, here)
    assert cluster.losses > 0


def test_windows_are_read_once_and_again_when_a_worker_is_lost(drawn):
    stored = SHARDS * sim.PER_SHARD * sim.WINDOWS * sim.WINDOW * 100.0
    assert trained(drawn)[0].read == pytest.approx(stored)
    assert trained(drawn, lost=0.05, boot=0.1)[0].read > stored


def test_the_clock_is_that_of_the_slowest_worker_of_each_pass(drawn):
    cluster, _, counts = trained(drawn, memory=1e3, latency=0.0, network=np.inf, storage=np.inf, per_vector=0.0)
    one_pass = cluster.factor * SHARDS / WORKERS * sim.PER_SHARD * sim.WINDOWS * sim.WINDOW / 1e3
    assert (
        counts.passes * one_pass <= cluster.now < 2 * counts.passes * one_pass
    )  # positives are visited between passes
    assert trained(drawn, spread=0.5)[0].now > trained(drawn)[0].now


def test_the_driver_s_connection_is_shared_by_all_answers(drawn):
    cluster = trained(drawn, network=1e3, latency=0.0, memory=np.inf, storage=np.inf)[0]
    assert cluster.now == pytest.approx((cluster.sent + cluster.received) / 1e3)
