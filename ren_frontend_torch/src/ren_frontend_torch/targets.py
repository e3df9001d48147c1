"""The calls that are known by name: which run on public data, and which have an encrypted meaning. Data only; needs no PyTorch.

A name is a dotted public path ("torch.cat", "operator.add", "torch.nn.functional.pad"), or for methods and properties of tensors the bare word. Audited calls
read their arguments, return new values or views, and touch nothing else: no files, no global state, no random numbers, no changes in place.
"""

from __future__ import annotations

from dataclasses import dataclass


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: namespace -> audited functions.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "torch": words(
        """
        abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax angle any arange arccos arccosh arcsin
        arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh as_tensor atan atan2 atanh atleast_1d atleast_2d atleast_3d baddbmm
        bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm broadcast_tensors broadcast_to
        bucketize cartesian_prod cat cdist ceil chain_matmul cholesky_inverse chunk clamp clamp_max clamp_min clip clone column_stack combinations
        complex concat concatenate conj conj_physical copysign corrcoef cos cosh count_nonzero cov cross cummax cummin cumprod cumsum
        cumulative_trapezoid deg2rad det diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div divide dot dsplit dstack einsum eq
        equal erf erfc erfinv exp exp2 expm1 eye fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod frac frexp full full_like
        gather gcd ge greater greater_equal gt heaviside histc hsplit hstack hypot i0 imag index_add index_copy index_fill index_select inner inverse
        isclose isfinite isin isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less less_equal lgamma linspace log log10 log1p log2
        logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logspace logsumexp lt masked_fill masked_scatter
        masked_select matmul matrix_exp matrix_power max maximum mean median meshgrid min minimum mm mode moveaxis movedim msort mul multiply mv mvlgamma
        nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative nextafter nonzero norm not_equal numel ones ones_like outer permute pinverse
        polar polygamma positive pow prod quantile rad2deg range ravel real reciprocal relu remainder renorm repeat_interleave reshape resolve_conj
        resolve_neg roll rot90 round row_stack rsqrt rsub scatter scatter_add searchsorted select select_scatter selu sgn sigmoid sign signbit sin sinc sinh
        slice_scatter softmax log_softmax sort split sqrt square squeeze stack std std_mean sub subtract sum swapaxes swapdims t take take_along_dim tan tanh
        tensor tensor_split tensordot tile topk trace transpose trapezoid trapz tril tril_indices triu triu_indices true_divide trunc unbind unflatten unique
        unique_consecutive unsqueeze vander var var_mean vdot view_as_complex view_as_real vsplit vstack where xlogy zeros zeros_like logspace
        """
    ),
    "torch.nn.functional": words(
        """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d avg_pool1d avg_pool2d batch_norm bilinear binary_cross_entropy celu conv1d conv2d conv3d
        conv_transpose1d conv_transpose2d cosine_similarity cross_entropy elu embedding fold gelu glu group_norm hardshrink hardsigmoid hardswish hardtanh
        instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear local_response_norm log_softmax logsigmoid max_pool1d max_pool2d mish mse_loss
        nll_loss normalize one_hot pad pairwise_distance pixel_shuffle pixel_unshuffle prelu relu relu6 rms_norm selu sigmoid silu smooth_l1_loss softmax softmin
        softplus softshrink softsign tanh tanhshrink threshold unfold
        """
    ),
    "torch.linalg": words(
        """
        cholesky cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv lstsq lu lu_factor matmul matrix_exp matrix_norm matrix_power
        matrix_rank multi_dot norm pinv qr slogdet solve solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
        """
    ),
    "torch.special": words(
        """
        digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc gammaln i0 i0e i1 i1e log1p log_ndtr log_softmax logit logsumexp multigammaln
        ndtr ndtri polygamma psi round sinc softmax xlog1py xlogy zeta
        """
    ),
    "torch.fft": words(
        "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
    ),
    "operator": words(
        """
        abs add and_ eq floordiv ge getitem gt invert le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv xor
        """
    ),
}

#: Audited methods of tensors.
METHODS: tuple[str, ...] = words(
    """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr all allclose amax amin aminmax angle any arccos arccosh arcsin arcsinh arctan arctan2
    arctanh argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bfloat16 bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm bool
    broadcast_to byte ceil char cholesky_inverse chunk clamp clamp_max clamp_min clip clone conj conj_physical contiguous copysign corrcoef cos cosh
    count_nonzero cov cpu cross cummax cummin cumprod cumsum deg2rad det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div
    divide dot double dsplit eq equal erf erfc erfinv exp exp2 expand expand_as expm1 fix flatten flip fliplr flipud float float_power floor floor_divide fmax
    fmin fmod frac frexp gather gcd ge greater greater_equal gt half heaviside histc hsplit hypot i0 index_add index_copy index_fill index_select inner int inverse
    isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 logaddexp
    logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp long lt masked_fill masked_scatter masked_select matmul
    matrix_exp matrix_power max maximum mean median min minimum mm mode moveaxis movedim msort mul multiply mv mvlgamma nan_to_num nanmean nanmedian
    nanquantile nansum narrow ne neg negative nelement nextafter nonzero norm not_equal numel outer permute pinverse polygamma positive pow prod
    quantile rad2deg ravel reciprocal relu remainder renorm repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg roll rot90 round rsqrt scatter
    scatter_add select select_scatter sgn short sigmoid sign signbit sin sinc sinh slice_scatter softmax log_softmax sort split sqrt square squeeze std
    sub subtract sum sum_to_size swapaxes swapdims t take take_along_dim tan tanh tensor_split tile to topk trace transpose tril triu true_divide trunc
    type_as unbind unflatten unfold unique unique_consecutive unsqueeze var vdot view view_as vsplit where xlogy
    """
)

#: Audited properties of tensors; kept as calls of kind "method".
PROPERTIES: tuple[str, ...] = ("H", "T", "imag", "mH", "mT", "real")

#: What draws random numbers, by its last word, with or without a trailing underscore.
RANDOM: frozenset[str] = frozenset(
    words(
        """
    alpha_dropout bernoulli binomial cauchy dropout dropout1d dropout2d dropout3d exponential feature_alpha_dropout feature_dropout fractional_max_pool2d
    fractional_max_pool3d geometric gumbel_softmax log_normal multinomial normal poisson rand rand_like randint randint_like randn randn_like random randperm
    rrelu scaled_dot_product_attention uniform
    """
    )
)
#: Of these, the ones that draw nothing unless their argument `training` is true.
ONLY_IN_TRAINING: frozenset[str] = frozenset(
    words("alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout feature_dropout rrelu")
)

#: Calls that give back the very object that they are asked for, so that `is` sees it.
ITSELF = frozenset(words("contiguous cpu resolve_conj resolve_neg positive pos"))

#: What returns memory as it was left.
UNWRITTEN: frozenset[str] = frozenset(
    words("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize")
)

#: Calls whose result never shares memory with an argument, so that it may be changed in place. Others might be views.
FRESH: frozenset[str] = frozenset(
    words(
        """
    abs add addcdiv addcmul addmm bmm cat clamp clone cos cosh cumsum div divide dot eq erf exp ge gelu gt le linear log lt matmul maximum mean minimum mm mul
    multiply mv ne neg negative outer pow prod reciprocal relu repeat roll rsqrt rsub sigmoid sign silu sin sinh softplus sqrt square stack std sub subtract sum
    tan tanh tile tril triu true_divide truediv var where zeros_like ones_like full_like
    """
    )
)


def function_names() -> tuple[str, ...]:
    """All audited functions as dotted names."""
    return tuple(f"{space}.{name}" for space, names in FUNCTIONS.items() for name in sorted(set(names)))


AUDITED: frozenset[tuple[str, str]] = frozenset(
    [("function", name) for name in function_names()] + [("method", name) for name in (*METHODS, *PROPERTIES)]
)

#: Binary operators that have a reflected form.
BINARY: tuple[str, ...] = words("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift")


@dataclass(frozen=True, slots=True)
class Spelling:
    """Ways to write one meaning on encrypted values. spellings: dotted names of functions, names of methods after a dot. parameters: names in order; *name takes
    the rest, ?name is given by keyword only. fresh: the result is memory of its own."""

    meaning: str
    spellings: tuple[str, ...]
    parameters: tuple[str, ...]
    summary: str
    fresh: bool


def _row(meaning: str, spellings: str, parameters: str, summary: str, *, fresh: bool = True) -> Spelling:
    return Spelling(meaning, words(spellings), words(parameters), summary, fresh)


SPELLINGS: tuple[Spelling, ...] = (
    _row("add", "torch.add operator.add .add", "input other alpha", "x + alpha * y"),
    _row("subtract", "torch.sub torch.subtract operator.sub .sub .subtract", "input other alpha", "x - alpha * y"),
    _row("reversed_subtract", "torch.rsub", "input other alpha", "y - alpha * x"),
    _row("multiply", "torch.mul torch.multiply operator.mul .mul .multiply", "input other", "x * y"),
    _row(
        "divide",
        "torch.div torch.divide torch.true_divide operator.truediv .div .divide .true_divide",
        "input other rounding_mode",
        "x / y with public y",
    ),
    _row(
        "power",
        "torch.pow torch.float_power operator.pow .pow .float_power",
        "input exponent",
        "x ** n with a whole n >= 0",
    ),
    _row("negate", "torch.neg torch.negative operator.neg .neg .negative", "input", "-x"),
    _row("square", "torch.square .square", "input", "x * x"),
    _row("conjugate", "torch.conj torch.conj_physical .conj .conj_physical", "input", "complex conjugate", fresh=False),
    _row("add_product", "torch.addcmul .addcmul", "input tensor1 tensor2 value", "x + value * y * z"),
    _row(
        "sum",
        "torch.sum .sum",
        "input dim keepdim dtype",
        "sum over all axes, or some; behind the first ones, one level",
    ),
    _row("mean", "torch.mean .mean", "input dim keepdim dtype", "mean over all axes, or some"),
    _row("roll", "torch.roll .roll", "input shifts dims", "cyclic shift along axes, or of the flattened array"),
    _row(
        "getitem",
        "operator.getitem",
        "input index",
        "elements and ranges; with steps, or behind the first axis, one level",
        fresh=False,
    ),
    _row("narrow", "torch.narrow .narrow", "input dim start length", "a range of the first axis", fresh=False),
    _row("select", "torch.select .select", "input dim index", "one element of the first axis", fresh=False),
    _row("split", "torch.split .split", "input split_size dim", "ranges of the first axis", fresh=False),
    _row("chunk", "torch.chunk .chunk", "input chunks dim", "ranges of the first axis", fresh=False),
    _row("unbind", "torch.unbind .unbind", "input dim", "all elements of the first axis", fresh=False),
    _row("reshape", "torch.reshape .reshape .view", "input *shape", "the same elements in another shape", fresh=False),
    _row(
        "flatten",
        "torch.flatten .flatten",
        "input start_dim end_dim",
        "the same elements in another shape",
        fresh=False,
    ),
    _row("flatten", "torch.ravel .ravel", "input", "the same elements in another shape", fresh=False),
    _row("squeeze", "torch.squeeze .squeeze", "input dim", "the same elements in another shape", fresh=False),
    _row("unsqueeze", "torch.unsqueeze .unsqueeze", "input dim", "the same elements in another shape", fresh=False),
    _row("transpose", "torch.t .t .T", "input", "axes in reverse; of a vector: itself", fresh=False),
    _row(
        "swap_axes",
        "torch.transpose torch.swapaxes torch.swapdims .transpose .swapaxes .swapdims",
        "input dim0 dim1",
        "two axes exchanged",
        fresh=False,
    ),
    _row("permute", "torch.permute .permute", "input *dims", "axes in another order", fresh=False),
    _row(
        "matmul",
        "torch.matmul torch.linalg.matmul operator.matmul .matmul",
        "input other",
        "encrypted vector or matrix with public matrix or vector, or two encrypted vectors",
    ),
    _row("matrix_matrix", "torch.mm .mm", "input mat2", "encrypted matrix with public matrix; no batches"),
    _row("dot", "torch.dot .dot", "input tensor", "encrypted vector with public or encrypted vector; no batches"),
    _row("matrix_vector", "torch.mv .mv", "input vec", "a matrix times a vector, one of them encrypted; no batches"),
    _row("inner", "torch.inner .inner", "input other", "over the last axes"),
    _row("linear", "torch.nn.functional.linear", "input weight bias", "public weight and bias"),
    _row(
        "same",
        "torch.positive operator.pos .positive .contiguous .detach .cpu .resolve_conj .resolve_neg torch.resolve_conj torch.resolve_neg",
        "input ?memory_format",
        "the value itself",
        fresh=False,
    ),
    _row("same", "torch.clone .clone", "input ?memory_format", "the value itself"),
    _row("same", ".double .float .half .bfloat16", "input ?memory_format", "the value itself", fresh=False),
    _row(
        "convert",
        ".to .type_as",
        "input *target ?dtype ?device ?non_blocking ?copy ?memory_format",
        "the value itself; conversion to integers is not understood",
        fresh=False,
    ),
    _row(
        "dropout",
        "torch.nn.functional.dropout torch.nn.functional.alpha_dropout torch.dropout",
        "input p training inplace",
        "in eval mode: the value itself",
        fresh=False,
    ),
    _row(
        "dropout",
        "torch.nn.functional.dropout1d torch.nn.functional.dropout2d torch.nn.functional.feature_alpha_dropout",
        "input p training inplace",
        "in eval mode: the value itself",
        fresh=False,
    ),
    _row("zeros_like", "torch.zeros_like", "input ?dtype ?device", "public zeros of a known shape"),
    _row("ones_like", "torch.ones_like", "input ?dtype ?device", "public ones of a known shape"),
)
