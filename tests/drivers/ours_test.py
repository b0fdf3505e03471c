# SPDX-License-Identifier: MIT
"""How a run of vkformer that a driver ends is gone on with."""
import json
import subprocess
import unittest

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


if __name__ == "__main__":
    unittest.main()
