# SPDX-License-Identifier: MIT
"""The ops of the tables: what they are called, which case of vkformer and which op of the peer they are."""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    case: str   # what tools/cases and the kernels' problems call it
    dtype: str
    op: str
    peer: str   # a regular expression of the peer's op


def product(title, case, dtype, peer_type, columns):
    return Row(title, case, dtype, "linear", rf"MUL_MAT\(type_a={peer_type},.*,n={columns},")


ROWS = [
    product("GEMM, f32", "linear 512x4096x4096", "f32", "f32", 512),
    product("GEMM, f16", "linear 512x4096x4096", "f16", "f16", 512),
    product("GEMM, q8_0", "linear 512x1024x1024", "f16_q8_0", "q8_0", 512),
    product("GEMM, q4_k", "linear 512x1024x1024", "f16_q4_k", "q4_K", 512),
    product("1 row, f16", "linear 1x4096x4096", "f16", "f16", 1),
    *(product(f"{rows} row{'s' * (rows > 1)}, {ours}", f"linear {rows}x1024x1024", f"f16_{ours}", peers, rows)
      for rows in (1, 8) for ours, peers in (("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q4_k", "q4_K"), ("q6_k", "q6_K"))),
    product("8 rows, f16", "linear 8x4096x4096", "f16", "f16", 8),
    Row("attention, head size 64", "attention_causal 512x512x9x3x64", "f16", "attention", r"FLASH.*hsk=64,.*nb=75,"),
    Row("attention, head size 128", "attention_causal 4096x4096x32x32x128", "f16", "attention", r"FLASH.*hsk=128,.*nb=4096,"),
    Row("decode attention, 64", "decode_attention_cache 1x4096x4096x32x8x64", "f16", "decode_attention", r"FLASH.*hsk=64,.*nb=1,"),
    Row("decode attention, 128", "decode_attention 1x4096x32x8x128", "f16", "decode_attention", r"FLASH.*hsk=128,.*nb=1,"),
    Row("RMS norm", "rms_norm 4096x4096", "f16", "rms_norm", r"RMS_NORM\("),
    Row("RoPE", "rope 4096x32x128", "f16", "rope", r"ROPE\("),
    Row("softmax", "masked_softmax 9x512x512", "f32", "masked_softmax", r"SOFT_MAX\("),
]


def of_peer(row, ops):
    """The peer's executable for a row, if it has one."""
    return next((executable for name, executable in ops.items() if re.match(row.peer, name)), None)


def weight(executable):
    loop = executable["loop"]
    return (loop["macs"], loop["load_bytes"]) if loop else (0, 0)


def widest(pipeline):
    """Of a pipeline that a driver compiled for several sizes of subgroups the widest, which is what it prefers."""
    return max(pipeline["executables"], key=lambda e: e.get("subgroup_size", 0), default=None)


def of_ours(row, report):
    """{variant: (executable, whether it is the default)}, of the dispatches of a variant the one that multiplies or loads most."""
    out = {}
    for pipeline in report["pipelines"]:
        executable = widest(pipeline)
        for use in pipeline["uses"]:
            if (use["case"], use["dtype"], use["op"]) == (row.case, row.dtype, row.op) and pipeline["offered"] and executable:
                before = out.get(use["variant"])
                if not before or weight(executable) > weight(before[0]):
                    out[use["variant"]] = (executable, use["default"])
    return out
