# SPDX-License-Identifier: MIT
"""How a run of vkformer that a driver ends is gone on with."""
import json
import os
import subprocess
import time
import unittest

import gpus
import ours


class Runs(unittest.TestCase):
    """vkformer with five pipelines, of which the driver does not live through some."""

    def run_with(self, deadly):
        def run_on(key, folder, program):
            first = program[program.index("--first") + 1]
            last = min(program[program.index("--last") + 1] if "--last" in program else 9, 4)
            done = []
            progress = ""
            for i in range(first, last + 1):
                progress += f"vkformer: pipeline {i}: shader_{i}\n"
                if i in deadly:
                    return subprocess.CompletedProcess(program, -11, "", progress)
                done.append({"shader": f"shader_{i}", "executables": []})
            report = {"driver": "NVK", "pipelines": done}
            return subprocess.CompletedProcess(program, 0, json.dumps(report), progress)

        return ours.report("ada", None, "vkformer", run_on=run_on)

    def names(self, report):
        return sorted((pipeline["shader"], "error" in pipeline) for pipeline in report["pipelines"])

    def test_all_are_there_once(self):
        for deadly in (set(), {0}, {4}, {2}, {1, 2}, {0, 1, 2, 3, 4}):
            self.assertEqual(self.names(self.run_with(deadly)), [(f"shader_{i}", i in deadly) for i in range(5)], deadly)

    def test_a_program_that_does_not_begin_is_an_error(self):
        def run_on(key, folder, program):
            return subprocess.CompletedProcess(program, 2, "", "no device 0")
        with self.assertRaisesRegex(RuntimeError, "no device 0"):
            ours.report("ada", None, "vkformer", run_on=run_on)

    def test_a_pipeline_that_never_ends_is_killed(self):
        run = lambda script: gpus.run_patiently(["sh", "-c", script], os.environ, 0.3)
        begun = time.monotonic()
        done = run("echo report; echo 'vkformer: pipeline 3: slow' >&2; exec sleep 60")
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual((done.returncode, done.stdout, ours.last_begun(done.stderr)), (-9, "report\n", (3, "slow")))
        # One that goes on is let go on, however long it takes in all.
        done = run("for i in 1 2 3 4 5 6 7 8; do echo $i >&2; sleep 0.2; done; echo report")
        self.assertEqual((done.returncode, done.stdout), (0, "report\n"))


if __name__ == "__main__":
    unittest.main()
