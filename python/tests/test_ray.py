# SPDX-License-Identifier: MIT
"""Models on the nodes of a Ray cluster: here several nodes of one machine."""

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CLIP, DATES, GOLDENS, PICTURES, ROOT, TEXTS, VIT, read_tensor, vulkan_devices

import vkformer

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("soundfile")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_DATA_DISABLE_PROGRESS_BARS="1")

from ray import cloudpickle, serve  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from ray.data.block import BlockAccessor  # noqa: E402

import vkformer.ray as on_ray  # noqa: E402
from vkformer import _generator  # noqa: E402
from vkformer.ray import _claims, _places, _replica, _serving, _workers  # noqa: E402

SENTENCES = GOLDENS / "sentences" / "embedder"
CROSS = GOLDENS / "sentences" / "cross_encoder"
WHISPER = GOLDENS / "speech" / "whisper_texts"
PAGE = ROOT / "docs" / "scaling.md"
PLAIN = {"plain_shaders": True}
NODES = 3
TEXTS_IN_THE_JOB = 10_000


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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that does no work, and nodes with three processors each, by what they say; the first has the devices."""
    small = {"object_store_memory": 100_000_000}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    software = _places.resources(software=True)
    made.workers = [made.add_node(num_cpus=3, resources=software if i == 0 else {}, **small) for i in range(NODES)]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have this file
    ray.init(address=made.address, log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


class TestCluster:
    def test_workers_take_devices_of_their_own(self, cluster: Any) -> None:
        if not vulkan_devices():
            pytest.skip("there is no Vulkan device")
        count = int(_places.resources(software=True).get(on_ray.SOFTWARE_DEVICE, 0))
        if not count:
            pytest.skip("all Vulkan devices are GPUs")
        options = on_ray.on_devices(software=True)
        assert options["resources"] == {on_ray.SOFTWARE_DEVICE: 1.0} and options["compute"].max_size == count
        probe = ray.remote(num_cpus=0, **{"resources": options["resources"]})(_Probe)
        probes = [probe.remote() for _ in range(count)]
        devices = [ray.get(one.device.remote()) for one in probes]
        assert len(set(devices)) == count and not any("CPU (float)" in name for name in devices)
        ray.kill(probes[0])
        assert ray.get(probe.remote().device.remote()) == devices[0]
        for one in probes[1:]:
            ray.kill(one)

    def test_a_processor_is_one_workers_alone(self, cluster: Any) -> None:
        probe = ray.remote(num_cpus=1)(_Probe)
        probes = [probe.remote() for _ in range(min(NODES, len(os.sched_getaffinity(0))))]
        taken = [ray.get(one.processors.remote()) for one in probes]
        assert all(len(one) == 1 for one in taken)
        assert len({*sum(taken, [])}) == len(probes)
        assert all(ray.get(one.device.remote()) == "CPU (float)" for one in probes)
        for one in probes:
            ray.kill(one)

    def test_asked_for_what_is_not_there(self, cluster: Any) -> None:
        with pytest.raises(RuntimeError, match=r"vkformer_device: start each with ray start --resources="):
            on_ray.on_devices()
        with pytest.raises(ValueError, match="expected 1 to 12"):
            on_ray.on_devices(workers_per_device=13)
        with pytest.raises(RuntimeError, match="no node of the cluster has 99 processors"):
            on_ray.on_cpus(99)
        assert on_ray.on_cpus(2)["compute"].max_size == NODES

    def test_sound_files_to_json_lines(self, cluster: Any, tmp_path: Path) -> None:
        clip = read_tensor(WHISPER / "golden.safetensors", "clip0").astype(np.float64)
        (tmp_path / "in").mkdir()
        for i in range(4):
            with wave.open(str(tmp_path / "in" / f"{i}.wav"), "wb") as sound:
                sound.setparams((1, 2, 16000, 0, "NONE", ""))
                sound.writeframes((clip / max(1, np.abs(clip).max()) * 32767).astype("<i2").tobytes())
        options = {"path": str(WHISPER), "temperatures": 0, "timestamps": False, **PLAIN}
        ray.data.read_binary_files(str(tmp_path / "in"), include_paths=True).map_batches(
            on_ray.Transcriber, fn_constructor_kwargs=options, batch_size=2, **on_ray.on_cpus()
        ).drop_columns(["bytes"]).write_json(str(tmp_path / "out"))
        rows = [json.loads(line) for file in (tmp_path / "out").iterdir() for line in file.read_text().splitlines()]
        assert sorted(row["path"][-5:] for row in rows) == ["0.wav", "1.wav", "2.wav", "3.wav"]
        assert len({row["text"] for row in rows}) == 1 and rows[0]["text"]

    def test_the_example_of_the_page(self, cluster: Any, tmp_path: Path) -> None:
        (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        (tmp_path / "texts.jsonl").write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
        there = {
            "all-MiniLM-L6-v2": SENTENCES,
            "texts.jsonl": tmp_path / "texts.jsonl",
            "vectors": tmp_path / "vectors",
        }
        for name, path in there.items():
            assert f'"{name}"' in example
            example = example.replace(f'"{name}"', repr(str(path)))
        exec(compile(example, str(PAGE), "exec"), {})
        written = ray.data.read_parquet(str(tmp_path / "vectors")).take_all()
        with vkformer.Embedder(SENTENCES, "cpu") as model:
            np.testing.assert_allclose(
                [row["embedding"] for row in written], model.embed(["a cat", "a dog"]), atol=1e-5
            )

    def test_a_node_dies_in_the_middle_of_a_job(self, cluster: Any, tmp_path: Path) -> None:
        import pyarrow.parquet

        lines = [f"sentence number {i} about {('cats', 'dogs', 'the weather')[i % 3]}" for i in range(TEXTS_IN_THE_JOB)]
        given = tmp_path / "in.jsonl"
        given.write_text("".join(json.dumps({"id": i, "text": line}) + "\n" for i, line in enumerate(lines)))
        with vkformer.Embedder(SENTENCES, "cpu", **PLAIN) as model:
            expected = model.embed(lines)
        out = tmp_path / "out"
        parts = 60

        def written() -> int:
            return len(list(out.glob("*.parquet"))) if out.exists() else 0

        killed_after: list[int] = []

        def kill() -> None:
            while written() < 3:
                time.sleep(0.01)
            killed_after.append(written())
            cluster.remove_node(cluster.workers.pop(), allow_graceful=False)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        ray.data.read_json(str(given), override_num_blocks=parts).map_batches(
            on_ray.Embedder,
            fn_constructor_kwargs={"path": str(SENTENCES), **PLAIN},
            batch_size=32,
            batch_format="pyarrow",
            num_cpus=2,  # so that there is one on every node, and the one that dies is at work; the third is for files
            compute=ray.data.ActorPoolStrategy(size=NODES),
        ).write_parquet(str(out))
        killer.join(60)
        rows = sorted(
            (row for file in out.glob("*.parquet") for row in pyarrow.parquet.read_table(file).to_pylist()),
            key=lambda row: int(row["id"]),
        )
        assert killed_after and killed_after[0] < parts / 2  # most was still to be done
        assert [row["id"] for row in rows] == list(range(TEXTS_IN_THE_JOB))
        assert [row["text"] for row in rows] == lines
        np.testing.assert_allclose(np.array([row["embedding"] for row in rows]), expected, rtol=0, atol=1e-6)


class _Probe:
    """Tells where a worker works."""

    def __init__(self) -> None:
        self._worker = on_ray.Embedder(str(SENTENCES), **PLAIN)

    def device(self) -> str:
        return self._worker.model.device

    def processors(self) -> list[int]:
        return sorted(os.sched_getaffinity(0))


def _program() -> str:
    found = os.environ.get("VKFORMER_PROGRAM")
    if not found:
        pytest.skip("VKFORMER_PROGRAM does not say where the program is")
    return found


ORIGIN = f"https://page-{os.getpid()}.example"
ARGUMENTS = ["--plain", "--allow-origin", ORIGIN, "--allow-host", "models.example"]
LONG = {"model": "long", "prompt": "Hello", "max_tokens": 4000, "n": 4, "temperature": 0, "ignore_eos": True}
COMPLETION = {"model": "texts", "prompt": "Hello", "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def service(cluster: Any, long_texts: Path) -> Iterator[int]:
    """The port of Ray's proxy before three models."""
    _program()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    models = {"texts": TEXTS, "vectors": SENTENCES, "long": long_texts}
    options = {"ray_actor_options": {"num_cpus": 1}, "health_check_period_s": 1}
    serve.run(on_ray.server(models, arguments=ARGUMENTS, **options), route_prefix="/")
    yield port
    serve.shutdown()


def _ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = {"content-type": "application/json"} if body is not None else {}
    connection.request(
        method, path, body if isinstance(body, bytes) else body and json.dumps(body), {**sent, **headers}
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def _raw(port: int, request: str) -> str:
    """The status line of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request.encode("latin-1"))
        return connection.makefile("rb").readline().decode()


def _servers() -> list[int]:
    """Servers of this test's replicas."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = folder.joinpath("cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if command[:4] == [_program(), "serve", "--port", "0"] and ORIGIN in command:
            found.append(int(folder.name))
    return found


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _wait(until: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.1)


def _metric(port: int, name: str) -> float:
    text = _ask(port, "GET", "/metrics")[2].decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if re.match(rf"{name}(\{{| )", line))


@pytest.fixture(scope="class")
def direct(long_texts: Path) -> Iterator[int]:
    """The port of a server of its own, without Ray."""
    command = [_program(), "serve", "-q", "--device", "cpu", "--port", "0", "--json-logs", *ARGUMENTS]
    command += ["--model", f"texts={TEXTS}", "--model", f"vectors={SENTENCES}", "--model", f"long={long_texts}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    port = 0
    for line in process.stderr:
        said = json.loads(line)
        port = int(said["port"]) if said["event"] == "listening" else port
        if said["event"] == "ready":
            break
    yield port
    process.terminate()
    process.wait()
    process.stderr.close()


class TestServe:
    @pytest.mark.parametrize(
        "request_",
        [
            ("GET", "/health"),
            ("GET", "/openapi.json"),
            ("GET", "/"),
            ("GET", "/none?a=%2F"),
            ("GET", "/a/../health"),
            ("GET", "/v1%2Fmodels"),
            ("PUT", "/v1/models"),
            ("POST", "/v1/completions", COMPLETION),
            ("POST", "/v1/completions", {**COMPLETION, "stream": True}),
            ("POST", "/v1/completions", {**COMPLETION, "max_tokens": -1}),
            ("POST", "/v1/completions", {**COMPLETION, "model": "nobody"}),
            ("POST", "/v1/completions", b"{"),
            ("POST", "/v1/embeddings", {"model": "vectors", "input": ["a cat", "ein Hund"]}),
            ("POST", "/tokenize", {"model": "texts", "prompt": "Hello"}),
        ],
        ids=lambda request: f"{request[0]} {request[1]}",
    )
    def test_answers_are_those_of_the_server(self, service: int, direct: int, request_: tuple[Any, ...]) -> None:
        status, headers, content = _ask(direct, *request_)
        through = _ask(service, *request_)
        assert through[0] == status
        for name in ("content-type", "content-security-policy", "cache-control"):
            assert through[1].get(name) == headers.get(name)
        assert _steady(through[2]) == _steady(content)
        assert through[1]["x-vkformer-request-id"].isdecimal() and "," not in through[1]["x-request-id"]

    def test_who_asks_is_checked_by_the_server(self, service: int, direct: int) -> None:
        for headers, status in (
            ({"Origin": ORIGIN}, 200),
            ({"Origin": "https://evil.example"}, 403),
            ({"Host": "models.example"}, 200),
            ({"Host": "evil.example"}, 403),
        ):
            found = _ask(direct, "GET", "/v1/models", **headers)[0]
            assert found == status and _ask(service, "GET", "/v1/models", **headers)[0] == status

    def test_what_the_server_would_not_see_is_refused(self, service: int) -> None:
        host = f"Host: 127.0.0.1:{service}"
        for headers in (
            f"{host}\r\nHost: evil.example",
            f"{host}\r\nOrigin: a\r\nOrigin: {ORIGIN}",
            f"{host}\r\nX-A: \xe9",
        ):
            assert " 400 " in _raw(service, f"GET /v1/models HTTP/1.1\r\n{headers}\r\n\r\n")

    def test_no_target_leads_elsewhere(self, service: int) -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            other.settimeout(1)
            host = f"127.0.0.1:{other.getsockname()[1]}"
            for target in (f"//{host}/x", f"http://{host}/x", f"/@{host}/", f"@{host}/", f"///{host}"):
                line = _raw(service, f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{service}\r\n\r\n")
                assert re.match(r"HTTP/1.1 4\d\d ", line), (target, line)
            with pytest.raises(TimeoutError):
                other.accept()

    @pytest.mark.parametrize("stream", [True, False])
    def test_who_leaves_is_forgotten(self, service: int, stream: bool) -> None:
        before = _metric(service, "vkformer_generated_tokens_total")
        connection = http.client.HTTPConnection("127.0.0.1", service, timeout=60)
        body = json.dumps({**LONG, "stream": stream})
        connection.request("POST", "/v1/completions", body, {"content-type": "application/json"})
        if stream:
            answer = connection.getresponse()
            assert answer.readline().startswith(b"data: ")
            answer.close()
        else:
            _wait(lambda: _metric(service, "vkformer_running_sequences") > 0)
        connection.close()
        _wait(lambda: _metric(service, "vkformer_running_sequences") == 0)
        made = _metric(service, "vkformer_generated_tokens_total") - before
        assert 0 < made < 16_000

    def test_a_server_that_ends_is_started_anew(self, service: int) -> None:
        (first,) = _servers()
        os.kill(first, signal.SIGKILL)
        _wait(lambda: (found := _servers()) != [] and found != [first])
        _wait(lambda: _ask(service, "GET", "/health")[0] == 200)
        assert _ask(service, "POST", "/v1/completions", COMPLETION)[0] == 200

    def test_a_replica_that_is_killed_leaves_no_server(self, service: int) -> None:
        (first,) = _servers()
        os.kill(_parent(_parent(first)), signal.SIGKILL)
        _wait(lambda: first not in _servers())
        _wait(lambda: _ask(service, "GET", "/health")[0] == 200)


class TestServerOfAReplica:
    """Without Ray."""

    def test_what_it_cannot_do_it_says(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="needs a model"):
            on_ray.server({})
        with pytest.raises(ValueError, match="has --port=1"):
            on_ray.server({"a": TEXTS}, arguments=["--port=1"])
        with pytest.raises(TypeError, match="expected str"):
            on_ray.server({"a": TEXTS}, arguments=[1])  # type: ignore[list-item]
        command = ["serve", "--port", "0", "--json-logs", "--model", f"a={tmp_path / 'none'}"]
        with pytest.raises(RuntimeError, match=r"ended with code \d+\n(.|\n)*none"):
            _replica.Replica(command, "cpu", _program(), 60, 35)
        with pytest.raises(FileNotFoundError, match="no program that can be run"):
            _replica.Replica(command, "cpu", "/none", 60, 35)

    def test_one_that_takes_too_long_and_hears_nothing_is_killed(self, tmp_path: Path) -> None:
        deaf = tmp_path / "deaf"
        deaf.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ > {tmp_path}/pid\nwhile :; do sleep 0.1; done\n")
        deaf.chmod(0o755)
        with pytest.raises(TimeoutError, match=r"not ready after 1 s"):
            _replica.Replica(["serve"], "cpu", str(deaf), 1, 0.5)
        process = int((tmp_path / "pid").read_text())
        _wait(lambda: not Path(f"/proc/{process}").exists())

    def test_a_server_has_its_own_time_to_end(self) -> None:
        assert _serving._grace([]) == 35
        assert _serving._grace(["--grace-seconds", "7", "--plain"]) == 12
        assert _serving._grace(["--grace-seconds=7"]) == 12
        assert _serving._grace(["--grace-seconds=soon"]) == 5


def _steady(content: bytes) -> Any:
    """Without what no two answers share: ids and times."""
    return re.sub(rb'"(id|created|created_at)":("[^"]*"|\d+)', b"", content)


def test_workers_are_the_models_that_have_them() -> None:
    """A model that gains a class here has its worker named like it."""
    workers = {name for name in on_ray.__all__ if isinstance(getattr(on_ray, name), type)} - {"Worker"}
    assert workers == {
        "Embedder",
        "Generator",
        "ImageClassifier",
        "ImageEmbedder",
        "Reranker",
        "Transcriber",
        "Translator",
    }
    assert all(issubclass(getattr(on_ray, name), _workers.Worker) for name in workers)


def test_the_machine_tells_what_it_has() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "vkformer.ray", "--software"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == on_ray.resources(software=True)
    devices = vkformer.devices() if vulkan_devices() else []
    software = {one.uuid for one in devices if one.type == "cpu" and not one.unusable}
    assert on_ray.resources(software=True).get(on_ray.SOFTWARE_DEVICE, 0) == len(software)
