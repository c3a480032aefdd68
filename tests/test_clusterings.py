import pytest

from mocaps import clusterings
from mocaps.clusterings import cluster
from mocaps.errors import InputError


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kmeans", "dtw-kmeans", "k-shape"])
def test_a_clustering_repeats_from_its_seed(method, monkeypatch):
    pytest.importorskip("tslearn")
    few = clusterings.trajectory20

    def fewer(name, length):
        return [part[:400] for part in few(name, length)]

    monkeypatch.setattr(clusterings, "trajectory20", fewer)
    options = {"sequences": 200, "restarts": 1, "iterations": 3, "barycentre_iterations": 2}
    found = [cluster(method, seed=3, **options) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0]["train"]["sequences"] == 200
    assert found[0]["test"]["sequences"] == 400
    accuracy = found[0]["cluster_accuracy"]
    assert found[0]["cluster_accuracy_carried_over"] <= accuracy < 0.5


def test_an_unknown_clustering_is_refused():
    pytest.importorskip("tslearn")
    with pytest.raises(InputError, match="expected a clustering among"):
        cluster("means")
