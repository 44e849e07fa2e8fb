"""Finds two races in machine code that no test finds reliably, along every path through a function.

*Early release*: a thread arrives at an mbarrier while its warp's loads from shared memory are still on their
way. An arrival does not wait for earlier loads. The barrier says that the memory was read, a bulk copy
overwrites it, and the loads bring the next data. Every load must have returned before the next arrival: some
instruction between the two waits for the load's scoreboard, or is a fence (MEMBAR), which orders both.

*Early access*: a kernel that may start before the previous one has ended (programmatic dependent launch)
accesses global memory on a path that has not reached ACQBULK (griddepcontrol.wait).

An instruction has 128 bits since sm_70. Bits 105 to 125 control its issue: stall cycles (4 bits), yield (1),
the scoreboard that its result releases (3; 7 is none), the one that its operands release (3), a mask of the
scoreboards that it waits for (6), and operand reuse (4).
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

EARLY_RELEASE, EARLY_ACCESS = "early_release", "early_access"

_STEP = 16  # bytes of an instruction
_CONTROL_AT = 105 - 64  # in the upper word
_RESULT_AT, _WAITS_AT = 5, 11  # in the control bits
_NO_SCOREBOARD = 7
_SCOREBOARDS = 6
_WAIT = "ACQBULK"
_OTHERS_SHOWN = 8

# Labels, and the instructions that matter: those that branch, load from shared memory, arrive, wait, or
# access global memory. Loads from another thread block's shared memory (LD) are not among the loads: barriers
# of the cluster give that memory back, no mbarrier.
_BRANCHES = r"BRA|BRX|BRXU|JMP|JMX|JMXU|CALL|RET|EXIT|BSSY|BSYNC|WARPSYNC|KILL|RTT"
_LOADS = r"LDS|LDSM"
_ACCESSES = (
    r"LD|ST|LDG|STG|LDGSTS|ATOM|ATOMG|RED|REDG|UTMALDG|UTMASTG|UTMAREDG|UBLKCP|UBLKRED|TEX|TLD|TLD4|SULD|SUST"
)
_LINE = re.compile(
    r"^(?:(?P<label>[.$][\w.$]+):(?=(?:\s*[.$][\w.$]+:)*\s*/\*(?P<place>[0-9a-f]{4,})\*/)"
    r"|\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<guard>!?U?P\w+)\s+)?"
    rf"(?P<opcode>(?:{_BRANCHES}|{_LOADS}|{_ACCESSES}|SYNCS|DEPBAR|MEMBAR|{_WAIT})(?=[\s.;])[\w.]*)"
    r"\s*(?P<operands>[^;\n]*);)",
    re.MULTILINE,
)
_LOAD = re.compile(rf"(?:{_LOADS})(?:\.|$)")
_ACCESS = re.compile(rf"(?:{_ACCESSES})(?:\.|$)")
# Arrivals that count as one, or as a register says, and add no bytes: they give memory back, or tell that
# threads have filled it. An arrival that adds bytes precedes a copy.
_ARRIVAL = re.compile(r"SYNCS\.ARRIVE\.\S*A(?:1|R)T0")
_BRANCH = re.compile(rf"(?:{_BRANCHES})(?:\.|$)")
_CONDITIONAL = frozenset({"BRA.DIV", "BRA.CONV"})
_CONDITION = re.compile(r"!?U?P\w+\s*,")
_TARGET = re.compile(r"`\(([^)]+)\)")
_SCOREBOARD = re.compile(r"SB(\d), 0x0\b")


class Place(NamedTuple):
    """An instruction of a function."""

    opcode: str
    address: int

    def __str__(self) -> str:
        return f"{self.opcode} at {self.address:04x}"


class Hazard(NamedTuple):
    """An instruction that comes too early.

    `others`: the loads that an early release does not wait for, or the further early accesses of that opcode.
    """

    kind: str
    early: Place
    others: tuple[Place, ...]

    def __str__(self) -> str:
        hidden = len(self.others) - _OTHERS_SHOWN
        if self.kind == EARLY_RELEASE:
            more = f" and {hidden} more loads" if hidden > 0 else ""
            return f"{self.early} arrives before {_listed(self.others)}{more} returned"
        more = f", and {len(self.others)} more," if self.others else ""
        return f"{self.early}{more} can run before {_WAIT}"

    def to_json(self) -> dict[str, object]:
        """For a unit's report: the first loads or accesses, and how many there are."""
        return {
            "kind": self.kind,
            "opcode": self.early.opcode,
            "address": f"{self.early.address:04x}",
            "others": [str(place) for place in self.others[:_OTHERS_SHOWN]],
            "count": len(self.others),
            "message": str(self),
        }


class _Instruction(NamedTuple):
    address: int
    guard: str
    opcode: str
    operands: str


class _Block(NamedTuple):
    begin: int
    end: int
    next: list[int]  # the blocks that may follow


def find_hazards(text: str, code: bytes) -> list[Hazard]:
    """The hazards of one function: `text` is what nvdisasm prints of it, `code` its bytes."""
    flow = _Flow(text, code)
    return [*flow.early_releases(), *flow.early_accesses()]


class _Flow:
    """A function's instructions that matter, in blocks, with the edges between them."""

    def __init__(self, text: str, code: bytes) -> None:
        self.control = [word >> _CONTROL_AT for word in array("Q", code[: len(code) // _STEP * _STEP])[1::2]]
        self.end = len(self.control) * _STEP
        self.instructions: dict[int, _Instruction] = {}
        self.labels: dict[str, int] = {}
        for label, place, address, guard, opcode, operands in _LINE.findall(text):
            if label:
                self.labels[label] = int(place, 16)
            else:
                at = int(address, 16)
                self.instructions[at] = _Instruction(at, guard, opcode, operands)
        self.blocks = self._split()

    def _split(self) -> dict[int, _Block]:
        branches = [branch for branch in self.instructions.values() if _BRANCH.match(branch.opcode)]
        targets = {branch.address: self._targets(branch) for branch in branches}
        begins = {0, *self.labels.values(), *(address + _STEP for address in targets)}
        begins.update(begin for following in targets.values() for begin in following)
        order = sorted(begin for begin in begins if 0 <= begin < self.end)
        syncs: dict[str, list[int]] = defaultdict(list)
        for branch in branches:
            if branch.opcode.startswith("BSSY"):
                syncs[branch.operands.split(",")[0]] += targets[branch.address]
        blocks = {}
        for begin, end in zip(order, [*order[1:], self.end], strict=True):
            last = self.instructions.get(end - _STEP)
            following = [end] if end < self.end else []
            if last is not None and last.address in targets:
                following = self._following(last, targets[last.address], following, syncs)
            blocks[begin] = _Block(begin, end, following)
        return blocks

    def _targets(self, branch: _Instruction) -> list[int]:
        if (match := _TARGET.search(branch.operands)) and match[1] in self.labels:
            return [self.labels[match[1]]]
        return []

    def _following(
        self,
        branch: _Instruction,
        targets: list[int],
        after: list[int],
        syncs: dict[str, list[int]],
    ) -> list[int]:
        kind = branch.opcode.split(".")[0]
        if kind == "BSSY":  # names the place where threads meet again; they go there by BSYNC
            return after
        if kind == "BSYNC":
            meet = syncs[branch.operands.split(",")[0].strip()]
            return after if not meet or set(after) & set(meet) else after + meet
        if kind in ("EXIT", "KILL", "RET", "RTT"):  # a call returns to the instruction after it
            taken = []
        elif kind in ("CALL", "WARPSYNC"):
            return targets + after
        elif targets:
            taken = targets
        else:  # an indirect branch: to any label
            taken = list(self.labels.values())
        always = (
            not branch.guard and branch.opcode not in _CONDITIONAL and not _CONDITION.match(branch.operands)
        )
        return taken if always else after + taken

    def early_releases(self) -> list[Hazard]:
        """For each load the first arrival on each path at which the load may still be under way."""
        loads = [instruction for instruction in self.instructions.values() if _LOAD.match(instruction.opcode)]
        number = {instruction.address: index for index, instruction in enumerate(loads)}
        held = [0] * 8  # the loads of each scoreboard, a bit each
        for index, instruction in enumerate(loads):
            held[self.control[instruction.address // _STEP] >> _RESULT_AT & 7] |= 1 << index
        held[_NO_SCOREBOARD] = 0
        waited = [
            sum(held[i] for i in range(_SCOREBOARDS) if mask >> i & 1) for mask in range(1 << _SCOREBOARDS)
        ]
        steps = {begin: self._steps(block, number, held, waited) for begin, block in self.blocks.items()}
        before: dict[int, int] = {0: 0}  # the loads under way where a block begins
        early: dict[int, int] = defaultdict(int)  # the loads under way at an arrival
        work = [0]
        while work:
            begin = work.pop()
            pending = before[begin]
            for load, returned, arrival in steps[begin]:
                pending &= ~returned
                if arrival is not None:
                    early[arrival] |= pending
                    pending = 0  # later arrivals on this path are not reported for the same loads
                pending |= load
            for following in self.blocks[begin].next:
                old = before.get(following)
                new = pending | (old or 0)
                if new != old:
                    before[following] = new
                    work.append(following)
        return [
            Hazard(
                EARLY_RELEASE,
                self._place(arrival),
                tuple(
                    self._place(instruction.address)
                    for i, instruction in enumerate(loads)
                    if pending >> i & 1
                ),
            )
            for arrival, pending in sorted(early.items())
            if pending
        ]

    def _place(self, address: int) -> Place:
        return Place(self.instructions[address].opcode, address)

    def _steps(
        self, block: _Block, number: dict[int, int], held: list[int], waited: list[int]
    ) -> list[tuple[int, int, int | None]]:
        """The load that starts, the loads that have returned, and the address of the arrival, for each of a
        block's instructions that have any of the three."""
        steps = []
        for index in range(block.begin // _STEP, block.end // _STEP):
            control = self.control[index]
            returned = waited[control >> _WAITS_AT & 63]
            instruction = self.instructions.get(index * _STEP)
            load, arrival = 0, None
            if instruction is not None:
                if instruction.address in number:
                    load = (
                        1 << number[instruction.address] if control >> _RESULT_AT & 7 != _NO_SCOREBOARD else 0
                    )
                elif _ARRIVAL.match(instruction.opcode):
                    arrival = instruction.address
                elif instruction.opcode.startswith("DEPBAR") and (
                    match := _SCOREBOARD.search(instruction.operands)
                ):
                    returned |= held[int(match[1])]
                elif instruction.opcode.startswith("MEMBAR"):
                    returned |= (1 << len(number)) - 1
            if load or returned or arrival is not None:
                steps.append((load, returned, arrival))
        return steps

    def early_accesses(self) -> list[Hazard]:
        """Accesses to global memory on paths that have not reached ACQBULK, if the function has one."""
        if not any(instruction.opcode == _WAIT for instruction in self.instructions.values()):
            return []
        accesses = []
        seen, work = {0}, [0]
        while work:
            block = self.blocks[work.pop()]
            for address in range(block.begin, block.end, _STEP):
                instruction = self.instructions.get(address)
                if instruction is None:
                    continue
                if instruction.opcode == _WAIT and not instruction.guard:
                    break
                if _ACCESS.match(instruction.opcode):
                    accesses.append(Place(instruction.opcode, address))
            else:
                for following in block.next:
                    if following not in seen:
                        seen.add(following)
                        work.append(following)
        hazards = []
        for _, same in groupby(sorted(accesses), key=lambda place: place.opcode):
            first, *further = same
            hazards.append(Hazard(EARLY_ACCESS, first, tuple(further)))
        return hazards


def _listed(places: Sequence[Place]) -> str:
    return ", ".join(map(str, places[:_OTHERS_SHOWN]))
