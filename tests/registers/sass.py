# SPDX-License-Identifier: Apache-2.0
"""What the machine code of a kernel for compute capability 9.0 does: its loops, and its accesses to memory.

An instruction has 16 bytes; its opcode is in the lowest 12 bits, the predicate that it is executed under in the next
four. The encoding is not published: what stands here was read off `cuobjdump --dump-sass` of all own kernels, and
budgets_self_test.py compares both where cuobjdump is found.
"""
import struct

BYTES = 16
BRA, BSSY, BSYNC, EXIT, RET, NOP = 0x947, 0x945, 0x941, 0x94D, 0x950, 0x918
LDG, LDGSTS, LDL, STL = 0x981, 0xFAE, 0x983, 0x387
WIDTHS = (1, 1, 2, 2, 4, 8, 16, 0)  # bytes a thread, by the field of an access
ALWAYS = 7  # the predicate that is true


class Instruction:
    def __init__(self, address, low, high):
        self.address, self.low, self.high = address, low, high
        self.opcode = low & 0xFFF
        self.always = low >> 12 & 0xF == ALWAYS

    def width(self):
        return WIDTHS[self.high >> 9 & 7]

    def target(self):
        """Where a branch goes, or threads that leave a divergent part by BSYNC."""
        if self.opcode == BSSY:
            offset = self.low >> 32 & 0xFFFFFFFF
            bits = 32
        else:
            offset = (self.low >> 34 << 8 | self.low >> 16 & 0xFF) << 2
            bits = 40
        if offset >> (bits - 1):
            offset -= 1 << bits
        return self.address + BYTES + offset

    def leaves_divergent_warp(self):
        """BRA.DIV: to code for warps whose threads do not come together, which ours always do."""
        return self.opcode == BRA and self.high >> 27 & 1 == 1

    def branches_always(self):
        return self.always and self.high >> 23 & 0xF == ALWAYS


def decode(code):
    """The instructions up to the padding after the last one."""
    found = [Instruction(at, *struct.unpack_from("<QQ", code, at)) for at in range(0, len(code), BYTES)]
    while found and found[-1].opcode == NOP:
        found.pop()
    if found and found[-1].opcode == BRA and found[-1].target() == found[-1].address:
        found.pop()  # a branch to itself, that no thread goes past the end
    return found


def successors(instructions):
    """Indices of the instructions that may follow each. Calls return."""
    index = {instruction.address: i for i, instruction in enumerate(instructions)}
    joins = {}  # barrier register: where the last BSSY before says that threads come together
    result = []
    for i, instruction in enumerate(instructions):
        following = [i + 1] if i + 1 < len(instructions) else []
        opcode, after = instruction.opcode, following
        if opcode == BSSY:
            joins[instruction.low >> 16 & 0xF] = instruction.target()
        elif opcode == BSYNC:
            target = joins.get(instruction.low >> 16 & 0xF)
            after = [index[target]] if target in index else following
        elif opcode == BRA and not instruction.leaves_divergent_warp():
            target = index.get(instruction.target())
            after = [] if instruction.branches_always() else list(following)
            if target is not None:
                after = after + [target]
        elif opcode == RET or (opcode == EXIT and instruction.branches_always()):
            after = []
        elif opcode == EXIT:
            after = following
        result.append(after)
    return result


def _order(after):
    """Indices that the first instruction leads to, each before what follows it, loops aside."""
    seen, order, stack = {0}, [], [(0, iter(after[0]))] if after else []
    while stack:
        at, rest = stack[-1]
        step = next((n for n in rest if n not in seen), None)
        if step is None:
            order.append(at)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(after[step])))
    return order[::-1]


def _dominators(order, before):
    """The closest instruction that every way to each goes through (Cooper, Harvey and Kennedy 2001)."""
    place = {at: i for i, at in enumerate(order)}
    closest = {0: 0}
    changed = True
    while changed:
        changed = False
        for at in order[1:]:
            known = [b for b in before[at] if b in closest]
            best = known[0]
            for other in known[1:]:
                one = best
                while one != other:
                    while place[one] > place[other]:
                        one = closest[one]
                    while place[other] > place[one]:
                        other = closest[other]
                best = one
            if closest.get(at) != best:
                closest[at] = best
                changed = True
    return closest


def loops(instructions):
    """Natural loops, by their first instruction: the sets of indices that lead back to it."""
    after = successors(instructions)
    order = _order(after)
    before = {at: [] for at in order}
    for at in order:
        for n in after[at]:
            before[n].append(at)
    closest = _dominators(order, before)

    def dominates(one, other):
        while other > 0 and other != one:
            other = closest[other]
        return other == one

    found = {}
    for at in order:
        for head in after[at]:
            if not dominates(head, at):
                continue
            body, work = found.setdefault(head, {head}), [at]
            while work:
                inside = work.pop()
                if inside not in body:
                    body.add(inside)
                    work += before[inside]
    return found


def hottest_loop(instructions):
    """The instructions of the largest loop that has no other in it; none where there is no loop."""
    found = loops(instructions)
    inner = [body for head, body in found.items() if not any(other != head and other in body for other in found)]
    return [instructions[i] for i in sorted(max(inner, key=len, default=[]))]
