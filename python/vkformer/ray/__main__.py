# SPDX-License-Identifier: MIT
import argparse
import json
import sys

from ._places import resources

parser = argparse.ArgumentParser(
    prog="python -m vkformer.ray",
    description='What this machine has, as JSON, for ray start --resources="$(python -m vkformer.ray)": its GPUs.',
)
parser.add_argument("--software", action="store_true", help="Vulkan devices that are CPUs (lavapipe, SwiftShader) too")
found = resources(software=parser.parse_args().software)
print(json.dumps(found))
if not found:
    print("vkformer: there is no device here that models run on; vkformer.devices() says why", file=sys.stderr)
