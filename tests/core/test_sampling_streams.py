"""ChaCha20 and the order in which samplers read it."""

import numpy as np
import pytest
from ren.numtheory.sampling import DISTRIBUTION_TAGS, chacha20_blocks, stream_words
from ren.testing.definitions_sampling import chacha20_block, stream

ZERO = bytes(32)

#: RFC 8439: (key, block counter, nonce, key stream) of section 2.3.2 and of appendix A.1, vectors 1 to 5.
RFC_8439 = [
    (
        bytes(range(32)),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        ZERO,
        0,
        "00" * 12,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        ZERO,
        1,
        "00" * 12,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        bytes(31) + b"\1",
        1,
        "00" * 12,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        b"\0\xff" + bytes(30),
        2,
        "00" * 12,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        ZERO,
        0,
        "00" * 11 + "02",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c78a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


@pytest.mark.parametrize(("key", "counter", "nonce", "expected"), RFC_8439)
def test_rfc_8439(key, counter, nonce, expected):
    words = [int(w) for w in np.frombuffer(bytes.fromhex(nonce), "<u4")]
    block = chacha20_blocks(key, counter, 1, *words)[:, 0]
    assert block.astype("<u4").tobytes().hex() == expected
    assert chacha20_block(key, counter, bytes.fromhex(nonce)) == block.tolist()


def test_blocks_count_up():
    many = chacha20_blocks(bytes(range(32)), 7, 5, 1, 2, 3)
    for b in range(5):
        assert np.array_equal(many[:, b], chacha20_blocks(bytes(range(32)), 7 + b, 1, 1, 2, 3)[:, 0])


@pytest.mark.parametrize("distribution", DISTRIBUTION_TAGS)
def test_sliced_order(distribution):
    """Against the scalar text, two groups long."""
    seed = bytes(range(100, 132))
    words = stream(seed, 9, 4, DISTRIBUTION_TAGS[distribution])
    assert stream_words(seed, 256, distribution, 9, 4).tolist() == [next(words) for _ in range(256)]


def test_sliced_order_word_by_word():
    """u32 number (group*16 + w)*16 + lane is word w of block 16*group + lane."""
    seed = bytes(range(32))
    blocks = chacha20_blocks(seed, 0, 48, 5, 0, 0)
    halves = stream_words(seed, 3 * 128, "uniform", 5).astype("<u8").view("<u4")
    for group, w, lane in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 15, 15), (2, 7, 3)):
        assert halves[(group * 16 + w) * 16 + lane] == blocks[w, 16 * group + lane]


@pytest.mark.parametrize(("start", "count"), [(0, 1), (0, 127), (5, 3), (100, 60), (128, 128), (250, 300)])
def test_any_part_of_a_stream(start, count):
    whole = stream_words(bytes(32), 640, "ternary", 3)
    assert np.array_equal(stream_words(bytes(32), count, "ternary", 3, start=start), whole[start : start + count])


def test_streams_do_not_meet():
    """Another seed, stream, attempt or distribution shares no word with this one."""
    base = {"seed": bytes(32), "count": 128, "distribution": "uniform", "stream": 0, "attempt": 0}
    changes = [{}, {"seed": b"\1" + bytes(31)}, {"stream": 1}, {"attempt": 1}, {"distribution": "ternary"}]
    words = [set(stream_words(**base | c).tolist()) for c in changes]
    assert len(set.union(*words)) == 128 * len(changes)
