"""The passes of this library and their places: what the plugin registers, and from it the default pipeline."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """target: "module:class" below `ren_passes`. stage, after, before: as in `ren.plugin.ordering.PassPlace`."""

    name: str
    target: str
    stage: str
    summary: str
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    default: bool = True


PLACES: tuple[Place, ...] = (
    Place(
        "eliminate-dead-values", "eliminate_dead_values:EliminateDeadValuesPass", "clean", "remove unused pure values"
    ),
    Place(
        "rebalance-products",
        "rebalance_products:RebalanceProductsPass",
        "semantic",
        "multiply many factors in shallow trees (changes rounding)",
        before=("lower-semantic-to-logical",),
        default=False,
    ),
    Place(
        "collect-polynomials",
        "collect_polynomials:CollectPolynomialsPass",
        "semantic",
        "evaluate written-out polynomials in few levels (changes rounding)",
        before=("rebalance-products",),
        default=False,
    ),
    Place(
        "lower-semantic-to-logical",
        "lower_semantic_to_logical:LowerSemanticToLogicalPass",
        "semantic",
        "name operations by which operands are encrypted",
    ),
    Place(
        "expand-logical",
        "expand_logical:ExpandLogicalPass",
        "logical",
        "write reductions, padded rolls, powers, matrix products with simple operations",
        before=("insert-plaintext-preparation",),
    ),
    Place(
        "fuse-scalar-products",
        "fuse_scalar_products:FuseScalarProductsPass",
        "logical",
        "multiply by constants once",
        after=("expand-logical",),
        before=("insert-plaintext-preparation",),
    ),
    Place(
        "split-rotations",
        "split_rotations:SplitRotationsPass",
        "logical",
        "sum many rotations in baby steps and giant steps",
        after=("fuse-scalar-products",),
        before=("insert-plaintext-preparation",),
    ),
    Place(
        "insert-plaintext-preparation",
        "insert_plaintext_preparation:InsertPlaintextPreparationPass",
        "logical",
        "encode public operands for their consumer",
    ),
    Place(
        "insert-multiply-ntt-transitions",
        "insert_multiply_ntt_transitions:InsertMultiplyNttTransitionsPass",
        "logical",
        "bring factors into the NTT domain",
        after=("insert-plaintext-preparation",),
    ),
    Place("lower-logical-to-ckks", "lower_logical_to_ckks:LowerLogicalToCkksPass", "lower", "make CKKS operations"),
    Place(
        "insert-relinearization",
        "insert_relinearization:InsertRelinearizationPass",
        "ckks",
        "relinearize products",
        before=("insert-rescale",),
    ),
    Place("insert-rescale", "insert_rescale:InsertRescalePass", "ckks", "rescale products"),
    Place(
        "align-levels",
        "align_levels:AlignLevelsPass",
        "ckks",
        "bring operands that meet to one level and scale; infer every state",
        after=("insert-rescale",),
    ),
    Place(
        "late-rescale",
        "late_rescale:LateRescalePass",
        "ckks",
        "rescale sums of products once",
        after=("align-levels",),
    ),
    Place(
        "late-relinearization",
        "late_relinearization:LateRelinearizationPass",
        "ckks",
        "relinearize sums of products once",
        after=("late-rescale",),
    ),
    Place(
        "fold-public-work",
        "fold_public_work:FoldPublicWorkPass",
        "clean",
        "compute constants, share and drop calls on public data",
        before=("eliminate-dead-values",),
    ),
    Place(
        "place-domains",
        "place_domains:PlaceDomainsPass",
        "ckks",
        "form sums in the NTT domain; drop transforms that do nothing",
        after=("align-levels",),
        before=("merge-equal-values",),
    ),
    Place(
        "encode-plaintexts-once",
        "encode_plaintexts_once:EncodePlaintextsOncePass",
        "optimize",
        "share encoded plaintexts",
    ),
    Place(
        "merge-equal-values",
        "merge_equal_values:MergeEqualValuesPass",
        "ckks",
        "compute equal values once",
        after=("align-levels",),
        before=("late-rescale",),
    ),
    Place(
        "hoist-rotations",
        "hoist_rotations:HoistRotationsPass",
        "optimize",
        "rotate one value in groups that share a decomposition",
    ),
    Place(
        "validate-cipher-states",
        "validate_cipher_states:ValidateCipherStatesPass",
        "validate",
        "stop at contradicting levels, scales and layouts",
        default=False,
    ),
    Place(
        "validate-executable-graph",
        "validate_executable_graph:ValidateExecutableGraphPass",
        "validate",
        "stop at programs that could never run",
        default=False,
    ),
    Place(
        "visualize-svg",
        "visualize_svg:SvgGraphVisualizationPass",
        "report",
        "draw a function as SVG",
        default=False,
    ),
)
