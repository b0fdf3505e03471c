# SPDX-License-Identifier: MIT
"""The loop in which a shader spends its time, and what a turn of it costs."""
import dataclasses

from assembly import ASSEMBLIES, parse
from instruction import ALL, DOT, MATRIX, PLAIN


@dataclasses.dataclass
class Loop:
    """One turn, per invocation."""
    instructions: int       # issued
    cycles: int             # to issue them, where the compiler tells
    macs: float             # multiply-adds
    full_waits: int | None  # how often all loads must have arrived, with less than half of the turn's work since the last of them;
                            # None, as below, where the compiler does not tell
    loads: int              # from buffers
    load_bytes: int         # of all of them
    shared_loads: int | None
    conversions: int
    scratch: int | None     # loads and stores of private memory
    barriers: int

    def as_json(self):
        return dataclasses.asdict(self)


def loops_of(instructions, scattered):
    """The places of the instructions of each loop. NVK puts other code between them, so there (scattered) they are those that reach a
    branch back without passing its target; the others enter a loop at its test, which would look like a second entry, but leave
    nothing between."""
    place = {label: i for i, one in enumerate(instructions) for label in one.labels}
    back = [(place[one.target], min(i + one.delay_slots, len(instructions) - 1)) for i, one in enumerate(instructions)
            if place.get(one.target, i + 1) <= i]
    if not scattered:
        return [set(range(head, branch + 1)) for head, branch in back]
    sources = [[] for _ in instructions]
    for i, one in enumerate(instructions):
        if one.target in place:
            sources[place[one.target]].append(i)
        if one.falls_through and i + 1 < len(instructions):
            sources[i + 1].append(i)
    by_head = {}
    for head, branch in back:
        loop, open_ones = by_head.setdefault(head, {head}), [branch]
        while open_ones:
            one = open_ones.pop()
            if one not in loop:
                loop.add(one)
                open_ones += sources[one]
    return list(by_head.values())


def full_waits(turn):
    """How often all loads that are on their way must have arrived before the turn goes on, waits that the turn's own work hides left
    out: those with at least half of its issue cycles between the last of the loads and the wait. Two turns are gone through and the
    second is counted, since a load may be asked for at the end of one turn and needed in the next."""
    half = sum(one.cycles for one in turn) / 2
    waits, now, waiting = 0, 0, []  # waiting: the token and the time of each load that is on its way
    for is_counted in (False, True):
        for one in turn:
            if waiting and one.awaits is not None:
                if one.awaits == ALL:
                    left = []
                elif isinstance(one.awaits, int):
                    left = waiting[len(waiting) - one.awaits:] if one.awaits < len(waiting) else waiting
                else:
                    left = [load for load in waiting if load[0] not in one.awaits]
                if not left:
                    waits += is_counted and now - max(time for _, time in waiting) < half
                waiting = left
            if one.token is not None:
                waiting.append((one.token, now))
            now += one.cycles
    return waits


def useful_macs(turn):
    """Those of the widest kind, where they are most of all: what is multiplied beside products of matrices or dot products scales
    their operands or sums."""
    by_kind = [sum(one.macs for one in turn if one.kind == kind) for kind in (PLAIN, DOT, MATRIX)]
    sums = [one.sums for one in turn if one.sums is not None]
    if sums:
        return min(sum(by_kind), sum(sums))
    return next((macs for macs in reversed(by_kind) if 2 * macs >= sum(by_kind)), sum(by_kind))


def measure(turn, untold):
    """One turn; None for what the assembly does not tell."""
    load_bytes = round(sum(one.load_bytes for one in turn), 6)
    loop = Loop(instructions=sum(one.issued for one in turn), cycles=sum(one.cycles for one in turn if one.issued),
                macs=useful_macs(turn), full_waits=full_waits(turn), loads=sum(one.load_bytes > 0 for one in turn),
                load_bytes=int(load_bytes) if load_bytes == int(load_bytes) else load_bytes,
                shared_loads=sum(one.shared_load for one in turn), conversions=sum(one.conversion for one in turn),
                scratch=sum(one.scratch for one in turn), barriers=sum(one.barrier for one in turn))
    return dataclasses.replace(loop, **dict.fromkeys(untold))


def registers(name, text):
    """{"registers": how many the code names}, where the assembly tells that and the driver does not."""
    return {"registers": ASSEMBLIES[name].registers(text)} if hasattr(ASSEMBLIES.get(name), "registers") else {}


def per_invocation(instructions, subgroup_size):
    """An instruction for a part of the subgroup counts for that part: products of matrices, too, have a column for each invocation."""
    for one in instructions:
        if one.width and subgroup_size:
            one.macs *= min(one.width / subgroup_size, 1)


def hot_loops(name, text, subgroup_size=None):
    """The loop that has most multiply-adds, those of loops inside it not counted, and the outermost one around it, if there is one: of
    attention the products of a tile, and all that is done for a tile. Of a shader that multiplies in no loop the one that loads most,
    and of one without loops all of it. Nothing where the driver shows no assembly that can be read here."""
    if name not in ASSEMBLIES:
        return None, None
    instructions = parse(ASSEMBLIES[name], text)
    per_invocation(instructions, subgroup_size)
    untold = getattr(ASSEMBLIES[name], "untold", ())
    if any(one.load_bytes for one in instructions) and all(one.awaits is None for one in instructions):
        untold += ("full_waits",)
    loops = loops_of(instructions, scattered=name == "NAK")
    bodies = [loop.difference(*(inner for inner in loops if inner < loop)) for loop in loops]
    weight = lambda places: (sum(instructions[i].macs for i in places), sum(instructions[i].load_bytes for i in places))
    if not any(any(weight(body)) for body in bodies):
        return measure(instructions, untold), None
    hot = max(range(len(loops)), key=lambda i: weight(bodies[i]))
    around = max((loop for loop in loops if loop > loops[hot]), key=len, default=None)
    turn = lambda places: measure([instructions[i] for i in sorted(places)], untold)
    return turn(bodies[hot]), turn(around) if around else None
