# SPDX-License-Identifier: MIT
"""Models on the nodes of a Ray cluster, for Ray Data and Ray Serve: here several nodes of one machine."""

import http.client
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
from conftest import GOLDENS, ROOT, TEXTS, read_tensor, vulkan_devices

import vkformer

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pytest.importorskip("soundfile")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_DATA_DISABLE_PROGRESS_BARS="1")

from ray import cloudpickle, serve  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import vkformer.ray as on_ray  # noqa: E402
from vkformer.ray import _places, _replica, _serving  # noqa: E402

SENTENCES = GOLDENS / "sentences" / "embedder"
WHISPER = GOLDENS / "speech" / "whisper_texts"
PAGE = ROOT / "docs" / "scaling.md"
PLAIN = {"plain_shaders": True}
NODES = 3
TEXTS_IN_THE_JOB = 10_000


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
