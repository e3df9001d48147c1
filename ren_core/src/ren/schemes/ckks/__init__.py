"""CKKS: approximate arithmetic on encrypted vectors of real or complex numbers.

from ren.schemes import ckks

engine = ckks.keygen(ckks.CKKSParams.default())
with engine:
    x = ckks.encrypt(ckks.encode([0.1, 0.2, 0.3], msg_bound=1.0))
    print(ckks.decode(ckks.decrypt(2 * x * x - 1), length=3))
"""

from ren.engine import capture as _capture
from ren.schemes.ckks.ckks import (
    Ciphertext,
    CiphertextBatch,
    CiphertextProduct,
    Engine,
    Plaintext,
    PlaintextBatch,
    PublicEngine,
    adjust,
    assume_bound,
    conjugate,
    context,
    decode,
    decrypt,
    encode,
    encrypt,
    from_bytes,
    keygen,
    linear_transform,
    load_secret,
    mod_drop,
    multiply,
    polyval,
    precision_report,
    prepare_linear_transform,
    realize,
    relinearize,
    rescale,
    rotate,
    rotate_many,
    save_secret,
    square,
    sum_slots,
    to_bytes,
)
from ren.schemes.ckks.context import plan_token as _plan_token
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKey,
    EvaluationKeySet,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    RotationKeySet,
    SecretKey,
    allow_secret_pickle,
)
from ren.schemes.ckks.matrices import LinearTransform
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.plaintext import rebuild_constant as _rebuild_constant
from ren.schemes.ckks.plaintext import scalar_of as _scalar_of
from ren.schemes.ckks.polynomial import chebyshev_coefficients
from ren.schemes.ckks.precision import PrecisionReport
from ren.schemes.ckks.scale import Scale

__all__ = [
    "CKKSParams",
    "Ciphertext",
    "CiphertextBatch",
    "CiphertextProduct",
    "ConjugationKey",
    "Engine",
    "EvaluationKey",
    "EvaluationKeySet",
    "LinearTransform",
    "Plaintext",
    "PlaintextBatch",
    "PrecisionReport",
    "PublicEngine",
    "PublicKey",
    "RelinearizationKey",
    "RotationKey",
    "RotationKeySet",
    "Scale",
    "SecretKey",
    "adjust",
    "allow_secret_pickle",
    "assume_bound",
    "chebyshev_coefficients",
    "conjugate",
    "context",
    "decode",
    "decrypt",
    "encode",
    "encrypt",
    "from_bytes",
    "keygen",
    "linear_transform",
    "load_secret",
    "mod_drop",
    "multiply",
    "polyval",
    "precision_report",
    "prepare_linear_transform",
    "realize",
    "relinearize",
    "rescale",
    "rotate",
    "rotate_many",
    "save_secret",
    "square",
    "sum_slots",
    "to_bytes",
]

# What ren.jit must know: plans depend on the active engine; bounds and the values of constants may change without a new plan.
_capture.register_context_token(_plan_token)
for _kind in (Ciphertext, CiphertextProduct, Plaintext):
    _capture.register_carried_field(_kind, "bound")
_capture.register_scalar_carrier(Plaintext, _scalar_of, _rebuild_constant)
