# SPDX-License-Identifier: MIT
"""Workers of Ray Data beside the models that they have, and what of a machine they take; without a cluster."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import wave
from typing import Any

import numpy as np
import pytest
from conftest import CLIP, DATES, GOLDENS, PICTURES, TEXTS, VIT, read_tensor, vulkan_devices

import vkformer

pytest.importorskip("ray.data")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("soundfile")

from ray.data.block import BlockAccessor  # noqa: E402

import vkformer.ray as on_ray  # noqa: E402
from vkformer import _generator  # noqa: E402
from vkformer.ray import _claims, _places, _workers  # noqa: E402

SENTENCES = GOLDENS / "sentences" / "embedder"
CROSS = GOLDENS / "sentences" / "cross_encoder"
WHISPER = GOLDENS / "speech" / "whisper_texts"
PLAIN = {"plain_shaders": True}


@pytest.fixture
def prefix(monkeypatch: pytest.MonkeyPatch) -> str:
    """Claims under a name of their own, for this process; what stands before the work of another one."""
    own = f"vkformer-test-{os.getpid()}"
    monkeypatch.setattr(_claims, "PREFIX", own)
    return f"from vkformer.ray import _claims\n_claims.PREFIX = {own!r}\n"


class TestClaims:
    def test_what_is_claimed_is_nobody_elses(self, prefix: str) -> None:
        first = _claims.claim(["a", "b"], 1.0, 0)
        second = _claims.claim(["a", "b"], 1.0, 0)
        assert first and second and {first.name, second.name} == {"a", "b"}
        assert _claims.claim(["a", "b"], 0.01, 0) is None
        name = first.name
        del first
        again = _claims.claim(["a", "b"], 1.0, 0)
        assert again and again.name == name

    @pytest.mark.parametrize("workers", [1, 2, 3, 5, 7, 12])
    def test_parts_fill_one_device_after_the_other(self, prefix: str, workers: int) -> None:
        part = np.floor(1e4 / workers) / 1e4
        taken = [_claims.claim(["a", "b"], part, 0) for _ in range(workers)]
        assert len({one.name for one in taken if one}) == 1 and all(taken)
        whole = _claims.claim(["a", "b"], 1.0, 0)  # Ray has one left, and so has the machine
        assert whole and taken[0] and whole.name != taken[0].name

    def test_who_waits_gets_what_becomes_free(self, prefix: str) -> None:
        held = [_claims.claim(["a"], 1.0, 0)]
        assert held[0]
        threading.Timer(0.5, held.clear).start()
        assert _claims.claim(["a"], 1.0, 30)

    def test_a_killed_process_holds_nothing_but_one_that_was_given_it_does(self, prefix: str) -> None:
        work = (
            prefix
            + """
import subprocess, sys
held = _claims.claim(["a"], 1.0, 0)
child = subprocess.Popen(["sleep", "600"], pass_fds=held.files if sys.argv[1] == "on" else [])
print(child.pid, flush=True)
child.wait()
"""
        )
        for handed in ("off", "on"):
            child = subprocess.Popen([sys.executable, "-c", work, handed], stdout=subprocess.PIPE, text=True)
            assert child.stdout
            sleeper = int(child.stdout.readline())
            assert _claims.claim(["a"], 1.0, 0) is None
            child.kill()
            child.wait()
            if handed == "on":
                assert _claims.claim(["a"], 1.0, 0.5) is None
            os.kill(sleeper, signal.SIGKILL)
            assert _claims.claim(["a"], 1.0, 30) is not None
            child.stdout.close()

    def test_workers_beyond_the_processors_are_spread(self, prefix: str) -> None:
        work = (
            prefix
            + """
import os, sys
from vkformer.ray._places import _take_processors
held = [_take_processors(int(sys.argv[1]))]
print(sorted(os.sched_getaffinity(0)), flush=True)
sys.stdin.read()
"""
        )
        allowed = sorted(os.sched_getaffinity(0))
        found: list[int] = []
        children = []
        for count in [1] * (2 * len(allowed)) + [len(allowed) + 1]:
            child = subprocess.Popen([sys.executable, "-c", work, str(count)], stdin=-1, stdout=-1, text=True)
            assert child.stdout
            children.append(child)
            found.extend(json.loads(child.stdout.readline()))
        assert all(found.count(one) == 3 for one in allowed)
        for child in children:
            child.communicate()

    def test_parts_that_no_device_has(self, prefix: str) -> None:
        for part in (2.0, 0.05):
            with pytest.raises(ValueError, match="expected 1, or a part of at least 1/12"):
                _places._take_device(on_ray.DEVICE, part, ["a"])
        with pytest.raises(RuntimeError, match="none of this node's 0 devices"):
            _places._take_device(on_ray.DEVICE, 1.0, [])

    def test_a_process_that_is_no_worker_says_where(self) -> None:
        with pytest.raises(RuntimeError, match="no worker of Ray's.*give device="):
            on_ray.Embedder(SENTENCES)


def _run(worker: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """What a worker makes of a batch, in NumPy's terms."""
    made = worker(BlockAccessor.batch_to_arrow_block({name: _column(values) for name, values in columns.items()}))
    return BlockAccessor.for_block(made).to_numpy(made.column_names)  # type: ignore[return-value]


def _column(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


class TestWorkers:
    """Each beside the model itself."""

    def test_embedder(self) -> None:
        texts = ["a cat", "a dog", "nothing"]
        with vkformer.Embedder(SENTENCES, "cpu", **PLAIN) as model:
            expected = model.embed(texts)
        found = _run(on_ray.Embedder(SENTENCES, "cpu", **PLAIN), {"text": texts, "id": np.arange(3)})
        assert list(found) == ["text", "id", "embedding"]
        np.testing.assert_array_equal(found["embedding"], expected)

    def test_reranker(self) -> None:
        with vkformer.Reranker(CROSS, "cpu", **PLAIN) as model:
            expected = model.score([("a cat", "a dog"), ("a cat", "a cat")])
        worker = on_ray.Reranker(CROSS, "cpu", query="q", text="t", **PLAIN)
        found = _run(worker, {"q": ["a cat", "a cat"], "t": ["a dog", "a cat"]})
        np.testing.assert_array_equal(found["score"], expected)

    def test_translator_tells_all_where_it_is_asked(self) -> None:
        worker = on_ray.Translator(DATES, "cpu", details="all", beams=2, hypotheses=2, **PLAIN)
        found = _run(worker, {"text": ["4. März 2021", ""]})
        assert list(found["translation"]) == ["2021-03-04", ""]
        first = json.loads(found["all"][0])
        assert first["text"] == "2021-03-04" and len(first["further"]) == 1 and first["score"] < 0

    def test_details_are_json(self) -> None:
        told = _workers._json(
            vkformer.Generation("a", [1], "length", 1, 0, None, [vkformer.StepLogProbs(1, -np.inf, [])])
        )
        assert json.loads(told, parse_constant=pytest.fail)["log_probs"] == [
            {"token": 1, "log_prob": None, "likeliest": []}
        ]

    def test_generator_takes_prompts_and_conversations(self) -> None:
        with vkformer.Generator(TEXTS, "cpu", **PLAIN) as model:
            expected = [one.text for one in model.generate(["Hello", "World"], max_tokens=9)]
            turns = [{"role": "user", "content": "Hi"}]
            answer = model.chat(turns, max_tokens=5).text
        worker = on_ray.Generator(TEXTS, "cpu", arguments={"max_tokens": 9}, details="details", **PLAIN)
        found = _run(worker, {"prompt": ["Hello", "World"]})
        assert list(found["text"]) == expected
        assert json.loads(found["details"][1])["finish"] == "length"
        worker = on_ray.Generator(TEXTS, "cpu", arguments={"max_tokens": 5}, **PLAIN)
        assert list(_run(worker, {"prompt": [turns, turns]})["text"]) == [answer, answer]
        with pytest.raises(TypeError, match="list of messages"):
            _run(worker, {"prompt": [7]})

    def test_every_row_draws_for_itself(self) -> None:
        drawn: _generator.GenerateArguments = {"max_tokens": 9, "temperature": 1, "seed": 5}
        turns = [{"role": "user", "content": "Hi"}]
        with vkformer.Generator(TEXTS, "cpu", **PLAIN) as model:
            prompted = [one.text for one in model.generate(["Hi", "Hi", "Hi"], **drawn)]
            answers = [model.chat(turns, **{**drawn, "seed": 5 + i}).text for i in range(3)]
        assert len(set(prompted)) > 1 and len(set(answers)) > 1
        worker = on_ray.Generator(TEXTS, "cpu", arguments=drawn, errors="column", **PLAIN)
        assert list(_run(worker, {"prompt": ["Hi"] * 3})["text"]) == prompted
        assert list(_run(worker, {"prompt": [turns] * 3})["text"]) == answers
        # A row that fails changes nothing of the others.
        found = _run(worker, {"prompt": ["Hi", None, "Hi"]})
        assert found["text"][0] == prompted[0] and found["text"][2] == prompted[2] and found["error"][1]

    def test_transcriber_takes_files_and_samples(self) -> None:
        clip = read_tensor(WHISPER / "golden.safetensors", "clip0").astype(np.float32)
        clip = (np.round(clip / max(1, np.abs(clip).max()) * 32767) / 32768).astype(np.float32)
        options: dict[str, Any] = {"temperatures": 0, "timestamps": False, **PLAIN}
        with vkformer.Transcriber(WHISPER, "cpu", **options) as model:
            expected = model.transcribe(clip)
            rate = model.sample_rate
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setparams((2, 2, rate, 0, "NONE", ""))
            sound.writeframes(np.repeat(clip * 32768, 2).astype("<i2").tobytes())
        worker = on_ray.Transcriber(WHISPER, "cpu", details="all", errors="column", **options)
        found = _run(worker, {"bytes": [file.getvalue(), b"no sound"]})
        assert found["text"][0] == expected.text and found["error"][0] is None
        assert json.loads(found["all"][0])["language"] == expected.language
        assert found["text"][1] is None and "cannot be read" in found["error"][1]

        sampled = on_ray.Transcriber(WHISPER, "cpu", input="amplitude", sample_rate="rate", **options)
        stereo = np.stack([np.stack([clip, clip])])
        assert _run(sampled, {"amplitude": stereo, "rate": np.array([rate])})["text"][0] == expected.text
        twice = np.repeat(clip, 2)  # as it were, at twice the rate
        assert sampled._samples(twice, 2 * rate).shape == clip.shape
        np.testing.assert_allclose(sampled._samples(np.stack([clip, -clip]), rate), 0)
        with pytest.raises(ValueError, match="0 samples a second"):
            sampled._samples(twice, 0)
        with pytest.raises(TypeError, match="divide by 32768"):
            _run(sampled, {"amplitude": np.ones((1, 1, 800), np.int16), "rate": np.array([rate])})
        with pytest.raises(ValueError, match=r"the shape \[800, 2\]"):
            _run(sampled, {"amplitude": np.ones((1, 800, 2), np.float32), "rate": np.array([rate])})

    def test_images(self) -> None:
        file = (PICTURES / "colour.png").read_bytes()
        pixels = vkformer.load_image(PICTURES / "colour.png")
        with vkformer.ImageClassifier(VIT, "cpu", **PLAIN) as model:
            best = model.classify(pixels)[0]
        with vkformer.ImageEmbedder(CLIP, "cpu", **PLAIN) as clip:
            expected = clip.embed_images([pixels, pixels])
        classifier, embedder = on_ray.ImageClassifier(VIT, "cpu", **PLAIN), on_ray.ImageEmbedder(CLIP, "cpu", **PLAIN)
        for images in ([file, file], np.stack([pixels, pixels])):
            found = _run(classifier, {"image": images})
            assert list(found["label"]) == [best.label] * 2
            np.testing.assert_allclose(found["probability"], best.probability, rtol=1e-6)
            np.testing.assert_array_equal(_run(embedder, {"image": images})["embedding"], expected)

    def test_a_row_that_fails_ends_the_job_or_says_why(self) -> None:
        rows = {"text": ["4. März 2021", None, "x" * 5000, "5. März 2021"]}
        with pytest.raises(TypeError, match="'text' has NoneType"):
            _run(on_ray.Translator(DATES, "cpu", **PLAIN), rows)
        found = _run(on_ray.Translator(DATES, "cpu", errors="column", **PLAIN), rows)
        assert list(found["translation"]) == ["2021-03-04", None, None, "2021-03-05"]
        assert found["error"][0] is None and found["error"][3] is None
        assert "TypeError" in found["error"][1] and "InvalidArgumentError" in found["error"][2]

        worker = on_ray.Embedder(SENTENCES, "cpu", errors="column", **PLAIN)
        vectors = _run(worker, {"text": ["a cat", None]})["embedding"]
        assert np.isfinite(vectors[0]).all() and np.isnan(vectors[1]).all() and vectors.dtype == np.float32

    def test_columns_have_one_type_whatever_is_in_them(self) -> None:
        worker = on_ray.Embedder(SENTENCES, "cpu", errors="column", **PLAIN)
        schemas = [
            worker(pa.table({"text": pa.array(texts, pa.string())})).schema
            for texts in (["a cat", "a dog"], ["a cat", None], [None, None], [])
        ]
        assert all(one == schemas[0] for one in schemas)
        assert schemas[0].field("error").type == pa.string()
        writer = on_ray.Translator(DATES, "cpu", details="all", errors="column", **PLAIN)
        for texts in (["4. März 2021"], [None], []):
            types = writer(pa.table({"text": pa.array(texts, pa.string())})).schema.types
            assert types == [pa.string()] * 4

    def test_what_is_not_read_stays_as_it_is(self) -> None:
        table = pa.table(
            {
                "text": ["4. März 2021", "5. März 2021"],
                "id": pa.array([2**53 + 1, None], pa.int64()),
                "at": pa.array([0, 1], pa.timestamp("us", "UTC")),
                "tags": pa.array([[1, 2], []], pa.list_(pa.int64())),
                "nothing": pa.array([None, None], pa.string()),
            }
        )
        made = on_ray.Translator(DATES, "cpu", **PLAIN)(table)
        assert made.drop_columns(["translation"]).equals(table)

    def test_what_is_no_fault_of_a_row_ends_the_job(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = on_ray.Embedder(SENTENCES, "cpu", errors="column", **PLAIN)

        def lost(*_: object) -> None:
            raise vkformer.VulkanError("the driver has had enough")

        monkeypatch.setattr(worker.model, "embed", lost)
        with pytest.raises(vkformer.VulkanError):
            _run(worker, {"text": ["a cat"]})

    def test_a_lost_device_costs_a_batch_a_second_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = on_ray.Embedder(SENTENCES, "cpu", **PLAIN)
        expected = _run(worker, {"text": ["a cat"]})["embedding"]
        lost = worker.model

        def lose(*_: object) -> None:
            raise vkformer.DeviceLostError("gone")

        monkeypatch.setattr(lost, "embed", lose)
        np.testing.assert_array_equal(_run(worker, {"text": ["a cat"]})["embedding"], expected)
        assert lost.closed and worker.model is not lost
        monkeypatch.setattr(vkformer.Embedder, "embed", lose)
        with pytest.raises(vkformer.DeviceLostError):
            _run(worker, {"text": ["a cat"]})

    def test_columns(self) -> None:
        with pytest.raises(ValueError, match="have the name 'a'"):
            on_ray.Translator(DATES, "cpu", output="a", details="a", **PLAIN)
        with pytest.raises(ValueError, match="give another one its name"):
            on_ray.Translator(DATES, "cpu", output="error", errors="column", **PLAIN)
        with pytest.raises(ValueError, match="errors is 'ignore'"):
            on_ray.Translator(DATES, "cpu", errors="ignore", **PLAIN)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="beems"):
            on_ray.Translator(DATES, "cpu", beems=2)
        worker = on_ray.Translator(DATES, "cpu", **PLAIN)
        with pytest.raises(ValueError, match="no column 'text', but 'line'"):
            _run(worker, {"line": ["x"]})
        with pytest.raises(ValueError, match="'translation' already"):
            _run(worker, {"text": ["x"], "translation": ["y"]})
        with pytest.raises(TypeError, match='give map_batches batch_format="pyarrow"'):
            worker({"text": _column(["x"])})


def test_every_model_has_a_worker() -> None:
    classes = {name: getattr(vkformer, name) for name in vkformer.__all__}
    models = {name for name, one in classes.items() if isinstance(one, type) and issubclass(one, vkformer.Model)}
    workers = {name for name in on_ray.__all__ if isinstance(getattr(on_ray, name), type)}
    assert workers - {"Worker"} == models - {"Model"}
    assert all(issubclass(getattr(on_ray, name), _workers.Worker) for name in workers)


def test_the_machine_tells_what_it_has() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "vkformer.ray", "--software"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == on_ray.resources(software=True)
    devices = vkformer.devices() if vulkan_devices() else []
    software = {one.uuid for one in devices if one.type == "cpu" and not one.unusable}
    assert on_ray.resources(software=True).get(on_ray.SOFTWARE_DEVICE, 0) == len(software)
