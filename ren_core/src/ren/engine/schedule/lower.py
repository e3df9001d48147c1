"""From values with domains to kernel steps: transforms inserted, element-wise operations fused, views resolved to offsets."""

from __future__ import annotations

from ren.engine.exec_unit import SlotKind
from ren.engine.schedule.fuse import Fuser, Member, Operand
from ren.engine.schedule.neighbours import ELEMENTWISE, Neighbours
from ren.engine.schedule.steps import Cell, RootSpan, Span, Step, Steps
from ren.engine.schedule.values import Ref, Root, Value, Values
from ren.ops import Domain, Kind, Op
from ren.ring import RingSpec

_OPCODE = {Op.ADD: "add", Op.SUBTRACT: "sub", Op.NEGATE: "neg", Op.MULTIPLY: "mul"}
#: (operation, constant first?) -> instruction with a scalar
_SCALAR_FORM = {
    (Op.ADD, False): "addc",
    (Op.ADD, True): "addc",
    (Op.SUBTRACT, False): "subc",
    (Op.SUBTRACT, True): "csub",
    (Op.MULTIPLY, False): "scale",
    (Op.MULTIPLY, True): "scale",
}

#: A 32-byte seed.
SEED_WORDS = 4


def lower(graph: Values, domains: list[Domain | None], kernels: frozenset[str]) -> Steps:
    """Steps that compute the roots of `graph`. kernels: what the backend declares (a merged kernel is used only if it is there)."""
    return _Lowering(graph, domains, kernels).run()


class _Lowering:
    def __init__(self, graph: Values, domains: list[Domain | None], kernels: frozenset[str]) -> None:
        self.values = graph.values
        self.roots = graph.roots
        self.domains = domains
        self.steps: list[Step] = []
        self.total = [0] * len(self.values)
        for v in self.values:
            for a in v.args:
                self.total[a.value] += 1
        for r in self.roots:
            self.total[r.ref.value] += 1
        self._cells: dict[tuple[int, int], Cell] = {}  # (value, part) as stored
        self._other: dict[tuple[int, int], tuple[Cell, int]] = {}  # the same in the other domain, and its first limb
        self._constants: dict[tuple[Ref, Domain], Cell] = {}
        self._seeds: dict[int, Cell] = {}
        self._fuser = Fuser(self.total, self.steps.append, lambda v: self._cell(v, 0), [v.at for v in self.values])
        self._neighbours = Neighbours(self.values, domains, self._available)
        self._absorbing = False
        self._wanted = self._ranges()
        self._merged = self._merged_key_switches() if "key_switch" in kernels else frozenset()

    def run(self) -> Steps:
        placed = self._neighbours.placed
        for index in range(len(self.values)):
            if not placed[index] and index not in self._merged:
                self._lower(index)
        self._fuser.flush_all()
        roots = [self._root(r) for r in self.roots]
        self._fuser.flush_all()
        inputs = [self._cell(i, 0) for i, v in enumerate(self.values) if v.op is Op.BUFFER]
        scalars = [self._cell(i, 0) for i, v in enumerate(self.values) if v.op is Op.CONST]
        return Steps(self.steps, roots, inputs, scalars, list(self._seeds.values()))

    # -- memory

    def _cell(self, value: int, part: int) -> Cell:
        """Where output `part` of a value is stored."""
        cell = self._cells.get((value, part))
        if cell is None:
            v = self.values[value]
            if v.op is Op.CONST:
                cell = Cell(v.ring.limbs, SlotKind.SCALAR, v.slot)
            elif v.op is Op.BUFFER:
                assert v.role is not None
                cell = Cell(_words(v), v.role, v.slot)
            else:
                cell = Cell(_words(v))
            self._cells[value, part] = cell
        return cell

    def _domain_of(self, value: Value, index: int) -> Domain:
        """The domain an operation runs in."""
        domain = self.domains[index]
        assert domain is not None, value.op
        return domain

    def _ranges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """For each value wanted in the domain it is not stored in, the limbs that are wanted there."""
        wanted: dict[tuple[int, int], tuple[int, int]] = {}

        def want(ref: Ref, domain: Domain) -> None:
            stored = self.domains[ref.value]
            if stored is not None and stored is not domain:
                lo, hi = wanted.get((ref.value, ref.part), (ref.start, ref.stop))
                wanted[ref.value, ref.part] = (min(lo, ref.start), max(hi, ref.stop))

        for index, value in enumerate(self.values):
            for ref in value.args:
                domain = self._operand_domain(value, index)
                if domain is not None:
                    want(ref, domain)
        for root in self.roots:
            if root.kind is Kind.POLY:
                want(root.ref, root.domain)
        return wanted

    def _operand_domain(self, value: Value, index: int) -> Domain | None:
        """The domain in which an operation takes its polynomials, None for "as they are stored"."""
        if value.op in (Op.BASIS_EXTEND, Op.LIFT):
            return Domain.COEFF
        if value.op in (Op.DECOMPOSE, Op.GADGET_PRODUCT, Op.FROM_FLOAT):
            return None
        return self.domains[index]

    def _merged_key_switches(self) -> frozenset[int]:
        """Decompositions whose digits have one user, a gadget product: one kernel does both and never stores the digits."""
        merged = set()
        for value in self.values:
            if value.op is Op.GADGET_PRODUCT:
                digits = value.args[0].value
                if self.total[digits] == 1 and self.values[digits].op is Op.DECOMPOSE:
                    merged.add(digits)
        return frozenset(merged)

    # -- operands

    def _in_memory(self, ref: Ref, domain: Domain | None, ring: RingSpec | None = None) -> Span:
        """A span that holds `ref` in `domain` (None: as stored, COEFF for a constant), emitting what is needed for that.

        ring: that of the operand, needed for a constant.
        """
        value = self.values[ref.value]
        n = value.ring.n
        if value.role is SlotKind.SCALAR:
            assert ring is not None
            return self._constant(ref, domain or Domain.COEFF, ring)
        self._emit_group(ref.value)
        cell = self._cell(ref.value, ref.part)
        if value.op is Op.SAMPLE and ref.value not in self._seeds:  # drawn where it is first needed, to be short-lived
            seed = self._seeds[ref.value] = Cell(SEED_WORDS, SlotKind.RANDOM, value.slot)
            self.steps.append(
                Step(
                    "sample",
                    value.ring,
                    value.params,
                    [Span(seed, 0, SEED_WORDS)],
                    [cell],
                    once=value.once,
                    made=(value.at,),
                )
            )
        if value.kind is not Kind.POLY:
            return Span(cell, 0, cell.words)
        limbs = ref.stop - ref.start
        stored = self.domains[ref.value]
        if domain is None or stored is domain:
            return Span(cell, ref.start * n, limbs * n)
        found = self._other.get((ref.value, ref.part))
        if found is None:
            lo, hi = self._wanted[ref.value, ref.part]
            out = Cell((hi - lo) * n)
            kernel = "ntt" if domain is Domain.NTT else "intt"
            rows = [Span(cell, lo * n, (hi - lo) * n)]
            ring = value.ring.take(lo, hi)
            self.steps.append(Step(kernel, ring, (), rows, [out], once=value.once, made=(value.at,)))
            found = self._other[ref.value, ref.part] = (out, lo)
        out, lo = found
        return Span(out, (ref.start - lo) * n, limbs * n)

    def _available(self, ref: Ref, domain: Domain) -> bool:
        """Whether a value that was lowered can be read in `domain` without a transform or draw that nobody asked for yet."""
        if self.values[ref.value].op is Op.SAMPLE and ref.value not in self._seeds:
            return False
        return self.domains[ref.value] is domain or (ref.value, ref.part) in self._other

    def _emit_group(self, value: int) -> None:
        """Emit the group that computes `value`, if it is open, with the work beside it."""
        group = self._fuser.open_group(value)
        if group is None:
            return
        if not self._absorbing:
            self._absorbing = True
            while (room := group.room) > 0:
                found = self._neighbours.ready_beside(group.members, room)
                if found is None:
                    break
                for index in found:
                    self._lower(index)
                after = self._fuser.open_group(value)
                if after is None:
                    break
                group = after
            self._absorbing = False
        self._fuser.flush(value)

    def _constant(self, ref: Ref, domain: Domain, ring: RingSpec) -> Span:
        """A constant polynomial written out."""
        cell = self._constants.get((ref, domain))
        if cell is None:
            cell = self._constants[ref, domain] = Cell(ring.limbs * ring.n)
            self.steps.append(
                Step(
                    "elementwise",
                    ring,
                    (0, 1, (("const", 0),), (0,), domain),
                    [],
                    [cell],
                    [self._scalar(ref)],
                    self.values[ref.value].once,
                    (self.values[ref.value].at,),
                )
            )
        return Span(cell, 0, cell.words)

    def _scalar(self, ref: Ref) -> Span:
        return Span(self._cell(ref.value, 0), ref.start, ref.stop - ref.start)

    def _fusable(self, ref: Ref, ring: RingSpec, domain: Domain, once: bool) -> Operand:
        """An operand of an element-wise value: the number of a value in an open group of the same ring and domain, or a span."""
        group = self._fuser.open_group(ref.value)
        if (
            group is not None
            and group.domain is domain
            and group.once is once
            and group.ring == ring
            and ref.stop - ref.start == ring.limbs
        ):
            return ref.value
        return self._in_memory(ref, domain, ring)

    # -- operations

    def _lower(self, index: int) -> None:
        """Lower one value: once, though lowering its operands may look for work beside them."""
        self._neighbours.begun[index] = True
        self._operation(index, self.values[index])
        self._neighbours.placed[index] = True

    def _operation(self, index: int, value: Value) -> None:
        op = value.op
        if op in ELEMENTWISE:
            self._elementwise(index, value)
        elif op is Op.AUTOMORPHISM:
            domain = self._domain_of(value, index)
            self._step(
                "automorphism",
                value,
                [self._in_memory(value.args[0], domain, value.ring)],
                (*value.params, domain),
                index,
            )
        elif op is Op.MOD_DOWN:
            self._mod_down(index, value)
        elif op is Op.BASIS_EXTEND:
            ring = value.ring.drop(len(value.params[1]))
            self._step(
                "basis_extend", value, [self._in_memory(value.args[0], Domain.COEFF, ring)], value.params, index, ring
            )
        elif op is Op.DECOMPOSE:
            x, ring, domain = self._decomposed(value)
            self._step("decompose", value, [x], (*value.params, domain), index, ring)
        elif op is Op.GADGET_PRODUCT:
            self._gadget_product(index, value)
        elif op is Op.FROM_FLOAT:
            self._step("from_float", value, [self._in_memory(value.args[0], None)], (), index)
        elif op is Op.LIFT:
            self._step("lift", value, [self._in_memory(value.args[0], Domain.COEFF, value.ring)], (), index)
        else:
            raise AssertionError(f"no lowering for {op}")

    def _step(
        self,
        kernel: str,
        value: Value,
        inputs: list[Span],
        params: tuple[object, ...],
        index: int,
        ring: RingSpec | None = None,
    ) -> None:
        cell = self._cell(index, 0)
        self.steps.append(Step(kernel, ring or value.ring, params, inputs, [cell], once=value.once, made=(value.at,)))

    def _elementwise(self, index: int, value: Value) -> None:
        domain, ring = self._domain_of(value, index), value.ring
        constants = [a for a in value.args if self.values[a.value].role is SlotKind.SCALAR]
        if constants and value.op is not Op.NEGATE:
            first = value.args[0] is constants[0] and len(value.args) > 1
            poly = value.args[1] if first else value.args[0]
            member = Member(
                index,
                _SCALAR_FORM[value.op, first],
                (self._fusable(poly, ring, domain, value.once),),
                self._scalar(constants[0] if first else value.args[1]),
            )
        else:
            member = Member(
                index, _OPCODE[value.op], tuple(self._fusable(a, ring, domain, value.once) for a in value.args)
            )
        self._fuser.add(member, ring, domain, value.once)

    def _mod_down(self, index: int, value: Value) -> None:
        domain, (k,) = self._domain_of(value, index), value.params
        x = value.args[0]
        ring = self._ring_of_operand(value, 0)
        inputs = [self._in_memory(x, domain, ring)]
        z_limbs = 0
        if len(value.args) > 1:
            z_ring = self._ring_of_operand(value, 1)
            inputs.append(self._in_memory(value.args[1], domain, z_ring))
            z_limbs = z_ring.limbs
        self._step("mod_down", value, inputs, (k, z_limbs, domain), index, ring)

    def _ring_of_operand(self, value: Value, at: int) -> RingSpec:
        ref = value.args[at]
        return self.values[ref.value].ring.take(ref.start, ref.stop)

    def _decomposed(self, value: Value) -> tuple[Span, RingSpec, Domain]:
        """The operand of a decomposition, its ring, and the domain it is stored in."""
        ring = self._ring_of_operand(value, 0)
        stored = self.domains[value.args[0].value]
        return self._in_memory(value.args[0], None, ring), ring, stored or Domain.COEFF

    def _gadget_product(self, index: int, value: Value) -> None:
        digits, key = value.args
        key_span = self._in_memory(key, None)
        key_limbs = self.values[key.value].ring.limbs
        outputs = [self._cell(index, 0), self._cell(index, 1)]
        if digits.value in self._merged:
            source = self.values[digits.value]
            x, ring, domain = self._decomposed(source)
            self.steps.append(
                Step(
                    "key_switch",
                    ring,
                    (*source.params, domain, key_limbs, value.params),
                    [x, key_span],
                    outputs,
                    once=value.once,
                    made=(value.at,),
                )
            )
        else:
            count = self.values[digits.value].count
            span = self._in_memory(digits, None)
            self.steps.append(
                Step(
                    "gadget_product",
                    value.ring,
                    (count, key_limbs, value.params),
                    [span, key_span],
                    outputs,
                    once=value.once,
                    made=(value.at,),
                )
            )

    # -- roots

    def _root(self, root: Root) -> RootSpan:
        value = self.values[root.ref.value]
        ring = value.ring.take(root.ref.start, root.ref.stop) if root.kind is Kind.POLY else value.ring
        span = self._in_memory(root.ref, root.domain if root.kind is Kind.POLY else None, ring)
        leaf = span.cell.kind is SlotKind.INPUT or span.cell.kind is SlotKind.CONSTANT
        if root.own and (leaf or span.words < span.cell.words):
            out = Cell(span.words)
            self.steps.append(Step("copy", ring, (), [span], [out], once=value.once, made=(value.at,)))
            span, leaf = Span(out, 0, out.words), False
        if not leaf:
            span.cell.kind = SlotKind.OUTPUT
        return RootSpan(span, root.domain)


def _words(value: Value) -> int:
    n, limbs = value.ring.n, value.ring.limbs
    if value.kind is Kind.POLY:
        return limbs * n
    if value.kind is Kind.FLOAT:
        return n + 1
    return value.count * limbs * n * (2 if value.kind is Kind.KEY else 1)
