# SPDX-License-Identifier: MIT
"""What is known of an instruction of any GPU, as far as the numbers of a loop need it.

Everything is counted per invocation: a load of 16 bytes is 16 bytes of one invocation, and a product of matrices, which all
invocations of a subgroup share, is its multiply-adds divided by them.
"""
import dataclasses
import re

ALL = "all"
PLAIN, DOT, MATRIX = 1, 2, 3  # multiply-adds of an invocation, sums of packed products, products of matrices


@dataclasses.dataclass
class Instruction:
    labels: tuple = ()          # of the place before it
    target: object = None       # the label that it branches to
    delay_slots: int = 0        # instructions behind a branch that run before it is taken
    falls_through: bool = True  # whether the next one may follow
    issued: bool = True         # takes a slot of the issuing unit; waits and hints do not
    cycles: int = 1             # to issue, by what the compiler says or by what is known of matrix units
    macs: float = 0             # multiply-adds
    sums: float = None          # additions, where these are no part of a multiply-add: then macs are multiplications
    kind: int = 0               # of these: PLAIN, DOT or MATRIX
    conversion: bool = False    # from one number format to another
    load_bytes: int = 0         # from buffers
    shared_load: bool = False   # from shared memory
    barrier: bool = False
    scratch: bool = False       # reads or writes private memory
    width: int = None           # invocations, where an instruction may be for a part of the subgroup
    token: object = None        # of a load: what is waited for
    awaits: object = None       # ALL, a number of loads that may stay on their way, or the set of tokens waited for


def first_number(pattern, text, default=None):
    found = re.search(pattern, text)
    return int(found[1], 0) if found else default
