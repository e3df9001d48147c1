// The key stream of `ren.numtheory.sampling`: ChaCha20 (RFC 8439), read in sliced order.
#pragma once
#include "ren_device.cuh"

constexpr u32 kGroupWords = 128;  // 64-bit words of 16 blocks
// A thread makes the 16 words that two neighbouring blocks give: words 8 w + pair of the group, w = 0..15, pair = thread % 8.
constexpr u32 kThreadWords = 16;

__device__ __forceinline__ u32 rotate_left(u32 x, u32 bits) { return (x << bits) | (x >> (32 - bits)); }

__device__ __forceinline__ void quarter_round(u32& a, u32& b, u32& c, u32& d) {
  a += b, d = rotate_left(d ^ a, 16);
  c += d, b = rotate_left(b ^ c, 12);
  a += b, d = rotate_left(d ^ a, 8);
  c += d, b = rotate_left(b ^ c, 7);
}

// What identifies a key stream: the seed's 32 bytes and words 13, 14, 15 of the state.
struct Stream {
  u32 key[8];
  u32 stream, attempt, tag;

  __device__ __forceinline__ void block(u32 counter, u32 (&out)[16]) const {
    const u32 start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, key[0], key[1], key[2], key[3],
                           key[4],      key[5],      key[6],      key[7],      counter, stream, attempt, tag};
    REN_UNROLL
    for (int i = 0; i < 16; i++) out[i] = start[i];
    for (int i = 0; i < 10; i++) {
      quarter_round(out[0], out[4], out[8], out[12]);
      quarter_round(out[1], out[5], out[9], out[13]);
      quarter_round(out[2], out[6], out[10], out[14]);
      quarter_round(out[3], out[7], out[11], out[15]);
      quarter_round(out[0], out[5], out[10], out[15]);
      quarter_round(out[1], out[6], out[11], out[12]);
      quarter_round(out[2], out[7], out[8], out[13]);
      quarter_round(out[3], out[4], out[9], out[14]);
    }
    REN_UNROLL
    for (int i = 0; i < 16; i++) out[i] += start[i];
  }

  // Words 8 w + pair, w = 0..15, of a group: lanes 2 pair and 2 pair + 1 of its blocks, low half first.
  __device__ __forceinline__ void words(u32 group, u32 pair, u64 (&out)[kThreadWords]) const {
    u32 half[16];
    block(16 * group + 2 * pair, half);
    REN_UNROLL
    for (int w = 0; w < 16; w++) out[w] = half[w];
    block(16 * group + 2 * pair + 1, half);
    REN_UNROLL
    for (int w = 0; w < 16; w++) out[w] |= (u64)half[w] << 32;
  }
};

// seed: four words in device memory.
__device__ __forceinline__ Stream stream_of(const u64* seed, u32 stream, u32 tag) {
  Stream s;
  REN_UNROLL
  for (int i = 0; i < 4; i++) {
    const u64 word = __ldg(seed + i);
    s.key[2 * i] = (u32)word;
    s.key[2 * i + 1] = (u32)(word >> 32);
  }
  s.stream = stream, s.attempt = 0, s.tag = tag;
  return s;
}
