"""Runs: the right numbers, the newest first, and no failure that spreads."""

import asyncio
import dataclasses
import math
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from qtcore_app import engine
from qtcore_app.frames import (
    BernoulliEncoder,
    Channel,
    GaussianEncoder,
    GridEncoder,
    Header,
    Trace,
    pack,
    truth_bytes,
    unpack,
)

import qtcore
from qtcore.metrics import nce
from qtcore.models.base import Model
from tests.app.server import PATIENCE


def gaussian_run(n_layers: int = 6) -> tuple[Header, engine.Run]:
    torch.manual_seed(0)
    model = qtcore.GaussianRBM(12, 5, n_layers=n_layers)
    model.W.data.normal_(0, 0.3)
    values = torch.randn(1, 12)
    query = qtcore.Query(values, torch.arange(12)[None] % 3 > 0)
    encoder = GaussianEncoder(model, values[0], query.target[0])
    return Header((3, 4), encoder.channels, 5, encoder.truth_bytes()), engine.Run("a", model, query, encoder, n_layers)


def test_the_first_picture_uses_one_thread_for_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads for one small picture wait for each other endlessly where the machine is busy."""
    seen = []
    header, run = gaussian_run()
    layers = engine.Run.layers
    monkeypatch.setattr(engine.Run, "layers", lambda self: seen.append(torch.get_num_threads()) or layers(self))
    outside = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        engine.compute(header, [run, run])
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(outside)


def test_blobs_hold_what_the_layers_say() -> None:
    header, run = gaussian_run()
    blob = engine.compute(header, [run, run])
    described, (result, again) = unpack(blob)
    assert described["seq"] == 5
    assert [each["name"] for each in described["channels"]] == ["mean", "deviation", "difference"]
    assert [each["count"] for each in described["runs"]] == [7, 7]
    np.testing.assert_array_equal(result, again)
    with torch.no_grad():
        layers = list(run.model.layers(run.query))
    for index, layer in enumerate(layers):
        for c, values in enumerate([layer.marginals.mean, layer.marginals.stddev]):
            low, high = header.channels[c].low, header.channels[c].high
            shown = low + result[index, c].reshape(-1) / 255 * (high - low)
            expected = values[0].clamp(low, high).numpy()
            assert np.abs(shown - expected).max() <= (high - low) / 255
    truth = truth_bytes(blob)
    assert truth is not None
    assert len(truth) == 12
    curves = described["runs"][0]["curves"]
    assert curves["nce"][-1] == pytest.approx(nce(run.model, run.query), rel=1e-4)
    assert curves["residual"][0] == 0
    assert curves["residual"][-1] == pytest.approx(float(layers[-1].residual[0]), rel=1e-3, abs=1e-6)


def test_binary_pixels() -> None:
    model = qtcore.RBM(4, 3)
    values = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    query = qtcore.Query(values, torch.tensor([[True, True, False, False]]))
    encoder = BernoulliEncoder(model, values[0], query.target[0])
    described, _ = unpack(engine.compute(Header((2, 2), encoder.channels), [engine.Run("", model, query, encoder, 3)]))
    with torch.no_grad():
        assert described["runs"][0]["curves"]["nce"][-1] == pytest.approx(nce(model, query, n_layers=3), rel=1e-4)


def test_grids() -> None:
    torch.manual_seed(0)
    model = qtcore.GridMRF(5, 6, clones=(4, 1, 1), n_layers=3)
    truth = torch.randint(3, (5, 6))
    query = qtcore.Query(torch.randint(2, (1, 5, 6)).float(), torch.ones(1, 5, 6), truth=truth[None])
    encoder = GridEncoder(model, truth)
    header = Header((5, 6), encoder.channels, truth=encoder.truth_bytes())
    blob = engine.compute(header, [engine.Run("", model, query, encoder, 3)])
    described, (result,) = unpack(blob)
    assert result.shape == (4, 4, 5, 6)
    assert result[:, 3].max() < 4  # clones
    assert described["runs"][0]["curves"]["nce"][-1] == pytest.approx(nce(model, query), rel=1e-4)
    assert 0 <= described["runs"][0]["curves"]["iou"][-1] <= 1


def test_numbers_that_are_none_do_not_reach_the_browser() -> None:
    trace = Trace("a", 1)
    trace.add([np.zeros((1, 1), np.uint8)], {"nce": math.nan, "iou": None, "residual": 1e-9})
    described, _ = unpack(pack(Header((1, 1), (Channel("x", 0, 1),)), [trace]))
    assert described["runs"][0]["curves"] == {"nce": [None], "iou": [None], "residual": [1e-9]}


def test_a_stream_grows_and_ends_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLICE", 0.0)
    monkeypatch.setattr(engine, "EMIT", 0.0)
    header, run = gaussian_run()

    async def collect() -> list[bytes]:
        return [blob async for blob in engine.stream(header, [run, run])]

    blobs = asyncio.run(collect())
    counts = [sum(each["count"] for each in unpack(blob)[0]["runs"]) for blob in blobs]
    assert counts == list(range(1, 15))
    assert blobs[-1] == engine.compute(header, [run, run])


@pytest.mark.parametrize("slice_", [0.0, 60.0])
def test_a_run_that_stops_by_itself_is_complete(slice_: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer layers than it might have had; a stream once waited for the others for ever."""
    monkeypatch.setattr(engine, "SLICE", slice_)
    monkeypatch.setattr(engine, "EMIT", 0.0)
    header, run = gaussian_run()
    n_layers, until = 300, qtcore.BP(until=1e-3)
    runs = [dataclasses.replace(run, n_layers=n_layers, engine=each) for each in (until, qtcore.Exact(), None)]
    with torch.no_grad():
        stopped = len(list(run.model.layers(run.query, n_layers, until))) - 1
    assert 1 < stopped < n_layers

    async def collect() -> list[bytes]:
        return [blob async for blob in engine.stream(header, runs)]

    blobs = asyncio.run(asyncio.wait_for(collect(), PATIENCE))
    described = unpack(blobs[-1])[0]["runs"]
    assert [each["total"] for each in described] == [stopped, 0, n_layers]
    assert [each["count"] for each in described] == [stopped + 1, 1, n_layers + 1]
    assert blobs[-1] == engine.compute(header, runs)


class Slow(Model):
    """Counts the layers that were really computed."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner.engine)
        self.inner, self.done = inner, 0
        self.threads: set[str] = set()

    def trace(self, query, n=None, engine=None):  # type: ignore[no-untyped-def]
        for layer in self.inner.layers(query, n):
            time.sleep(0.01)
            self.done += 1
            self.threads.add(threading.current_thread().name)
            yield layer

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


def test_the_newest_wins_and_stale_runs_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLICE", 0.0)
    header, run = gaussian_run(200)
    shown: list[int] = []

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def main() -> list[Slow]:
        latest, models = engine.Latest(), []
        for seq in range(4):
            model = Slow(run.model)
            models.append(model)
            n_layers = 1_000_000 if seq < 3 else 5  # hours, for those that are given up
            mine = engine.Run("", model, run.query, run.encoder, n_layers)

            async def job(seq: int = seq, mine: engine.Run = mine) -> None:
                async for _ in engine.stream(header, [mine]):
                    shown.append(seq)  # noqa: PERF401

            latest.submit(job)
            await asyncio.wait_for(until(lambda model=model: model.done > 0), PATIENCE)  # type: ignore[misc]
        await asyncio.wait_for(until(lambda: models[3].done == 6 and shown[-1] == 3), PATIENCE)
        assert latest.cancelled == 3
        stopped = [model.done for model in models[:3]]
        await asyncio.sleep(0.1)  # ten layers
        assert all(model.done <= before + 1 for model, before in zip(models[:3], stopped, strict=True))  # one was under way
        return models

    models = asyncio.run(main())
    assert models[3].done == 6
    assert shown == sorted(shown)
    assert all(name.startswith("qtcore-app") for model in models for name in model.threads)


def test_failures_are_told_in_plain_words(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def fails(error: Exception) -> None:
        raise error

    for error in (ValueError("weights at /home/me/model"), RuntimeError("Traceback")):
        engine.Latest(told.append).submit(lambda error=error: fails(error))  # type: ignore[misc]
    assert len(told) == 2
    assert not any("/home" in sentence or "Traceback" in sentence for sentence in told)


def test_models_are_shared_and_not_trained() -> None:
    assert engine.model("grbm/frey") is engine.model("grbm/frey")
    fresh = engine.untrained(engine.model("grbm/frey"))
    assert fresh is engine.untrained(engine.model("grbm/frey"))
    assert fresh.config() == engine.model("grbm/frey").config()
    assert fresh is not engine.model("grbm/frey")
    assert not any(parameter.requires_grad for parameter in fresh.parameters())


@pytest.mark.parametrize(
    ("wanted", "sentence"), [("", "No GPU"), ("cpu", ""), ("cuda:99", "cannot be used"), ("rubbish", "cannot be used")]
)
def test_devices(wanted: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QTCORE_DEVICE", wanted)
    monkeypatch.setattr(engine, "_works", lambda name: False)
    result = engine.device.__wrapped__()
    assert result.name == "cpu"
    assert sentence in result.sentence
    assert bool(sentence) == bool(result.sentence)
    assert result.refused == (sentence == "cannot be used")
    monkeypatch.setattr(engine, "_works", lambda name: True)
    result = engine.device.__wrapped__()
    assert result.label == (wanted.split(":")[0] or "cuda").upper()
    assert result.sentence == ""
