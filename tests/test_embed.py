import tracemalloc
import zipfile

import numpy as np
import pytest
import small
import torch

from mocaps.data import arrays
from mocaps.data.trajectory20 import Trajectory20
from mocaps.embed import embed, embed_file
from mocaps.errors import InputError
from mocaps.model import build


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build(small.config().model)


@pytest.fixture
def x():
    return Trajectory20(seed=3)[:70][0].numpy()


def test_a_file_holds_what_the_model_says_in_order(tmp_path, model, x):
    np.savez(tmp_path / "x.npz", x=x)
    calls = []
    shapes = embed_file(
        model,
        small.config(),
        tmp_path / "x.npz",
        tmp_path / "out.npz",
        rows=32,
        watch=lambda *c: calls.append(c),
    )
    assert calls == [(32, 70), (64, 70), (70, 70)]
    model.eval()
    with torch.no_grad():
        output = model(torch.from_numpy(x))
    with np.load(tmp_path / "out.npz") as out:
        found = dict(out)
    assert {name: array.shape for name, array in found.items()} == shapes
    assert set(found) == {"nu", "B", "mu", "A", "reconstruction", "error"}
    close = {"rtol": 1e-4, "atol": 1e-6}
    np.testing.assert_allclose(found["nu"], output.segments.nu, **close)
    np.testing.assert_allclose(found["B"][..., :2, :], output.segments.B, **close)
    assert (found["B"][..., 2, :] == [0, 0, 1]).all()
    np.testing.assert_allclose(found["A"][..., :2, :], output.snippets.A, **close)
    np.testing.assert_allclose(found["mu"], output.snippets.mu, **close)
    np.testing.assert_allclose(found["reconstruction"], output.reconstruction, **close)
    distances = np.linalg.norm(output.reconstruction.numpy() - x, axis=-1) ** 2
    np.testing.assert_allclose(found["error"], distances.mean(-1), **close)
    assert all(array.dtype == np.float32 for array in found.values())


def test_only_nu_is_the_function_for_arrays(tmp_path, model, x):
    np.savez(tmp_path / "x.npz", x=x)
    embed_file(
        model, small.config(), tmp_path / "x.npz", tmp_path / "out.npz", only=["nu"], rows=32
    )
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["nu"]
        np.testing.assert_allclose(out["nu"], embed(model, x), rtol=1e-4, atol=1e-6)
    assert model.training  # as it was


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "f2", "i2"])
def test_any_way_to_store_numbers_reads_the_same(tmp_path, x, save, order, dtype):
    stored = np.asarray(x * 100, dtype=dtype, order=order)
    save(tmp_path / "x.npz", y=np.arange(70), x=stored)
    member = arrays.open_x(tmp_path / "x.npz")
    found = np.concatenate([arrays.as_float32(part, "x") for part in member.chunks(32)])
    np.testing.assert_array_equal(found, stored.astype(np.float32))
    assert np.array_equal(arrays.read_y(tmp_path / "x.npz", 70), np.arange(70))


def test_several_points_stay_apart_on_an_axis_of_their_own(tmp_path):
    config = small.config(model__num_points=3)
    torch.manual_seed(0)
    model = build(config.model)
    x = np.random.default_rng(0).normal(size=(5, 32, 3, 2)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    shapes = embed_file(model, config, tmp_path / "x.npz", tmp_path / "out.npz", rows=2)
    assert shapes["nu"] == (5, 18)
    assert shapes["B"] == (5, 3, 6, 3, 3)
    assert shapes["error"] == (5, 3)
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["nu"], embed(model, x), rtol=1e-4, atol=1e-6)


def test_a_single_layer_model_has_no_segments(tmp_path):
    config = small.config(model__num_segment_capsules=0, model__snippet_length=32)
    model = build(config.model)
    np.savez(tmp_path / "x.npz", x=Trajectory20()[:5][0].numpy())
    shapes = embed_file(model, config, tmp_path / "x.npz", tmp_path / "out.npz")
    assert "B" not in shapes
    assert shapes["nu"] == (5, 3)


def test_memory_does_not_grow_with_the_file(tmp_path, model, x):
    def peak(repeats):
        np.savez(tmp_path / "x.npz", x=np.tile(x, (repeats, 1, 1)))
        tracemalloc.start()
        embed_file(model, small.config(), tmp_path / "x.npz", tmp_path / "out.npz", rows=64)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(100) < 1.2 * peak(30)


def bad_files(path, x):
    """Name of the case, what is wrong with the file, and the sentence."""
    spoiled = x.copy()
    spoiled[41, 7, 1] = np.nan
    np.savez(path / "nan.npz", x=spoiled)
    np.savez(path / "huge.npz", x=np.full((3, 32, 2), 1e300))
    np.savez(path / "shape.npz", x=x[:, :16])
    np.savez(path / "axes.npz", x=x[0])
    np.savez(path / "empty.npz", x=x[:0])
    np.savez(path / "none.npz", z=x)
    np.savez(path / "words.npz", x=np.full((2, 32, 2), "a"))
    np.savez(path / "complex.npz", x=x.astype(complex))
    np.savez(path / "objects.npz", x=np.array([{"a": 1}] * 3, dtype=object))
    whole = (path / "nan.npz").read_bytes()
    (path / "half.npz").write_bytes(whole[: len(whole) // 2])
    (path / "nothing.npz").write_bytes(b"")
    (path / "text.npz").write_text("x")
    (path / "folder.npz").mkdir()
    with zipfile.ZipFile(path / "header.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nan", r"expected finite numbers in 'x', got nan in sequence 41, frame 7$"),
        ("huge", r"expected finite numbers in 'x', got inf in sequence 0, frame 0$"),
        ("shape", r"expects 'x' of shape \(n, 32, 2\), got \(70, 16, 2\)"),
        ("axes", r"expected 'x' of shape \(n, L, d\).* got \(32, 2\)"),
        ("empty", r"expected at least one sequence in 'x', got \(0, 32, 2\)"),
        ("none", r"expected an array 'x', found z"),
        ("words", r"expected real numbers in 'x', got <U1"),
        ("complex", r"expected real numbers in 'x', got complex"),
        ("objects", r"got Python objects, which are never unpickled"),
        ("half", r"expected an .npz file, found a damaged"),
        ("nothing", r"expected an .npz file, found a damaged"),
        ("text", r"expected an .npz file, found a damaged"),
        ("folder", r"expected an .npz file at .*, found a directory"),
        ("header", r"expected an .npz file, found a damaged"),
        ("absent", r"expected a file at .*absent.npz, found none"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(tmp_path, model, x, name, sentence):
    bad_files(tmp_path, x)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match=sentence):
        embed_file(model, small.config(), tmp_path / f"{name}.npz", tmp_path / "out.npz", rows=16)
    assert sorted(tmp_path.iterdir()) == before


def test_damage_inside_a_compressed_member_is_one_sentence(tmp_path, model, x):
    np.savez_compressed(tmp_path / "x.npz", x=np.tile(x, (20, 1, 1)))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"damaged"):
        embed_file(model, small.config(), tmp_path / "x.npz", tmp_path / "out.npz", rows=16)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_an_unknown_array_is_refused(tmp_path, model, x):
    np.savez(tmp_path / "x.npz", x=x)
    with pytest.raises(InputError, match=r"expected arrays among nu, B, .* got 'mv'"):
        embed_file(model, small.config(), tmp_path / "x.npz", tmp_path / "o.npz", only=["mv"])


def test_labels_are_checked(tmp_path, x):
    for y, sentence in (
        (np.arange(69), r"expected 'y' of shape \(70,\), .* got \(69,\)"),
        (np.zeros(70), r"expected whole numbers in 'y', got float64"),
        (np.full(70, -1), r"expected labels from 0 in 'y', got -1"),
    ):
        np.savez(tmp_path / "y.npz", x=x, y=y)
        with pytest.raises(InputError, match=sentence):
            arrays.read_y(tmp_path / "y.npz", 70)
