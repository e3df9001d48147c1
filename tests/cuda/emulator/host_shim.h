// The CUDA C that Ren's kernels use, for g++ on the host. Included before the kernel source, which stays as it is.
//
// Every CUDA thread of a block is a fiber. __syncthreads, __syncwarp, shuffles and votes hand control back to a scheduler
// (scheduler.cpp), which resumes the threads of a block in sequential, reverse or random order. Kernels must not rely on anything but
// barriers, so all orders have to give the same bits.
//
// Not emulated: cooperative groups, asynchronous copies, tensor cores, textures, inline PTX.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__ __attribute__((noinline))  // keeps instrumented kernels out of the uninstrumented launch code
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __constant__ static
#define __grid_constant__
// All statically sized shared variables of a module land in one linker section, which the runtime poisons before
// each block. One OS thread runs all blocks, so one instance is enough.
#define __shared__ static __attribute__((section("ren_shared")))

// What ren_device.cuh leaves to whoever compiles it for something else than a GPU.
#define REN_UNROLL _Pragma("GCC unroll 32")
#define REN_GLOBAL(word) (word)
#define REN_DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(renshim::dynamic_shared())

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
// In fast builds the compiler must not rely on the alignment of 16-byte values: its aligned vector move of one that is misaligned would end
// the process. Check builds, which find such an access before it is made, need the device's alignment.
#ifdef REN_SHIM_CHECK
#define REN_SHIM_WIDE 16
#else
#define REN_SHIM_WIDE 8
#endif
struct alignas(8) int2 { int x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(REN_SHIM_WIDE) int4 { int x, y, z, w; };
struct alignas(REN_SHIM_WIDE) uint4 { unsigned x, y, z, w; };
struct alignas(REN_SHIM_WIDE) ulonglong2 { unsigned long long x, y; };
struct alignas(REN_SHIM_WIDE) longlong2 { long long x, y; };
struct alignas(REN_SHIM_WIDE) double2 { double x, y; };
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
static inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

namespace renshim {
typedef unsigned long long u64;
enum Op { kSync, kGather, kBallot };
extern dim3 block_dim, grid_dim, block_index, current_thread_index;

// Where the code and the static shared variables of a module lie.
struct Module { char *begin, *end, *shared_begin, *shared_end; };

void barrier(int line);
int barrier_sum(int line, int value);                        // sum of value over the block
u64 warp_exchange(unsigned mask, Op op, u64 value, int source_lane, int line);
int lane();
void* dynamic_shared();
void note_atomic(const void* address, int size, const void* pc);  // these three: check builds only
void note_constant(const void* address, int size);
void note_wide(const void* address, int size, bool write);
int run(const Module* module, void (*body)(void*), void* closure, const unsigned* config);

#ifdef REN_SHIM_CHECK
// Out of line and uninstrumented, so that reading an index is not logged as a memory access of the kernel.
dim3 thread_index();
dim3 get_block_index();
dim3 get_block_dim();
dim3 get_grid_dim();
#else
inline dim3 thread_index() { return current_thread_index; }
inline dim3 get_block_index() { return block_index; }
inline dim3 get_block_dim() { return block_dim; }
inline dim3 get_grid_dim() { return grid_dim; }
#endif

template <class T> inline u64 to_bits(T v) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4- or 8-byte values");
  u64 b = 0;
  std::memcpy(&b, &v, sizeof(T));
  return b;
}
template <class T> inline T from_bits(u64 b) {
  T v;
  std::memcpy(&v, &b, sizeof(T));
  return v;
}

template <class... A> struct Call {
  void (*kernel)(A...);
  void** argv;
  template <size_t... I> __attribute__((no_sanitize("thread"))) void invoke(std::index_sequence<I...>) const { kernel(*static_cast<A*>(argv[I])...); }
  static __attribute__((no_sanitize("thread"))) void body(void* self) { static_cast<Call*>(self)->invoke(std::index_sequence_for<A...>()); }
};
template <class... A> int launch(const Module* module, void (*kernel)(A...), void** argv, const unsigned* config) {
  Call<A...> call{kernel, argv};
  return run(module, &Call<A...>::body, &call, config);
}
// One letter per parameter: p pointer, i/I signed and u/U unsigned of 4/8 bytes, f float, d double, ? anything else.
template <class T> constexpr char letter() {
  using V = std::remove_cv_t<T>;
  if (std::is_pointer_v<V>) return 'p';
  if (std::is_floating_point_v<V>) return sizeof(V) == 4 ? 'f' : 'd';
  if (std::is_integral_v<V>) {
    bool s = std::is_signed_v<V>;
    return sizeof(V) == 4 ? (s ? 'i' : 'u') : sizeof(V) == 8 ? (s ? 'I' : 'U') : '?';
  }
  return '?';
}
template <class... A> const char* signature(void (*)(A...)) {
  static const char text[] = {letter<A>()..., 0};
  return text;
}
}  // namespace renshim

// Once per module, after the kernel source.
#define REN_SHIM_MODULE                                                                                        \
  extern "C" {                                                                                                 \
  extern char __start_ren_shared[] __attribute__((weak, visibility("hidden")));                                \
  extern char __stop_ren_shared[] __attribute__((weak, visibility("hidden")));                                 \
  extern char __ehdr_start[] __attribute__((visibility("hidden")));                                            \
  extern char _end[] __attribute__((visibility("hidden")));                                                    \
  }                                                                                                            \
  static const renshim::Module renshim_this_module = {__ehdr_start, _end, __start_ren_shared, __stop_ren_shared};
// Once per kernel. `bound` is the text inside __launch_bounds__, 1024 where there is none.
#define REN_SHIM_EXPORT(name, bound)                                                                                      \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) int renshim_launch_##name(                     \
      void** argv, const unsigned* config) { return renshim::launch(&renshim_this_module, &name, argv, config); }         \
  extern "C" __attribute__((visibility("default"))) const char* renshim_signature_##name() { return renshim::signature(&name); } \
  extern "C" __attribute__((visibility("default"))) unsigned renshim_bound_##name() { return bound; }

#define threadIdx (renshim::thread_index())
#define blockIdx (renshim::get_block_index())
#define blockDim (renshim::get_block_dim())
#define gridDim (renshim::get_grid_dim())
#define warpSize 32

#define __syncthreads() renshim::barrier(__LINE__)
#define __syncthreads_count(p) renshim::barrier_sum(__LINE__, (p) ? 1 : 0)
#define __syncthreads_or(p) (renshim::barrier_sum(__LINE__, (p) ? 1 : 0) != 0)
#define __syncthreads_and(p) (renshim::barrier_sum(__LINE__, (p) ? 0 : 1) == 0)
#define __syncwarp(...) renshim::syncwarp(__LINE__ __VA_OPT__(,) __VA_ARGS__)
namespace renshim {
inline void syncwarp(int line, unsigned mask = 0xffffffffu) { warp_exchange(mask, kSync, 0, 0, line); }
template <class T> inline T shuffle(int line, unsigned mask, T v, int source) {
  return from_bits<T>(warp_exchange(mask, kGather, to_bits(v), source, line));
}
template <class T> inline T shfl(int line, unsigned mask, T v, int source, int width = 32) {
  int base = lane() & ~(width - 1);
  return shuffle(line, mask, v, base + (source & (width - 1)));
}
template <class T> inline T shfl_xor(int line, unsigned mask, T v, int lane_mask, int width = 32) {
  int self = lane(), other = self ^ lane_mask;
  return shuffle(line, mask, v, (other / width) > (self / width) ? self : other);
}
template <class T> inline T shfl_down(int line, unsigned mask, T v, unsigned delta, int width = 32) {
  int self = lane(), in = (self & (width - 1)) + (int)delta;
  return shuffle(line, mask, v, in < width ? self + (int)delta : self);
}
template <class T> inline T shfl_up(int line, unsigned mask, T v, unsigned delta, int width = 32) {
  int self = lane(), in = (self & (width - 1)) - (int)delta;
  return shuffle(line, mask, v, in >= 0 ? self - (int)delta : self);
}
}  // namespace renshim
#define __shfl_sync(...) renshim::shfl(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) renshim::shfl_xor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) renshim::shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) renshim::shfl_up(__LINE__, __VA_ARGS__)
#define __ballot_sync(mask, p) ((unsigned)renshim::warp_exchange(mask, renshim::kBallot, (p) ? 1 : 0, 0, __LINE__))
#define __any_sync(mask, p) (__ballot_sync(mask, p) != 0)
#define __all_sync(mask, p) (__ballot_sync(mask, !(p)) == 0)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

// -- integers
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)(((__int128)a * b) >> 64); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
static inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v) {
  v = ((v >> 1) & 0x55555555u) | ((v & 0x55555555u) << 1);
  v = ((v >> 2) & 0x33333333u) | ((v & 0x33333333u) << 2);
  v = ((v >> 4) & 0x0f0f0f0fu) | ((v & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(v);
}
static inline unsigned long long __brevll(unsigned long long v) {
  return ((unsigned long long)__brev((unsigned)v) << 32) | __brev((unsigned)(v >> 32));
}
// Shift amounts are taken modulo 32, as the hardware does.
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)(((((unsigned long long)hi << 32) | lo) << (s & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  return (unsigned)((((unsigned long long)hi << 32) | lo) >> (s & 31));
}
template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }

// -- doubles: rounding-exact operations that no compiler may contract. On the device these are DMUL, DADD, DFMA and conversions.
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return std::sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline long long __double_as_longlong(double v) { return renshim::from_bits<long long>(renshim::to_bits(v)); }
static inline double __longlong_as_double(long long v) { return renshim::from_bits<double>(renshim::to_bits(v)); }
static inline int __double2hiint(double v) { return (int)(renshim::to_bits(v) >> 32); }
static inline int __double2loint(double v) { return (int)renshim::to_bits(v); }
static inline double __hiloint2double(int hi, int lo) {
  return renshim::from_bits<double>(((unsigned long long)(unsigned)hi << 32) | (unsigned)lo);
}
static inline double __ll2double_rn(long long v) { return (double)v; }
static inline double __ull2double_rn(unsigned long long v) { return (double)v; }
static inline double __int2double_rn(int v) { return (double)v; }
static inline double __uint2double_rn(unsigned v) { return (double)v; }
static inline long long __double2ll_rn(double v) { return std::llrint(v); }
static inline long long __double2ll_rz(double v) { return (long long)v; }
static inline unsigned long long __double2ull_rz(double v) { return (unsigned long long)v; }

// -- memory
// __ldg promises that nothing writes the word during the whole launch; check builds hold the kernel to it.
#ifdef REN_SHIM_CHECK
template <class T> inline T __ldg(const T* p) {
  renshim::note_constant(p, sizeof(T));
  return *p;
}
template <class T> inline T __ldcs(const T* p) {
  renshim::note_wide(p, sizeof(T), false);
  return *p;
}
template <class T> inline void __stcs(T* p, std::type_identity_t<T> v) {
  renshim::note_wide(p, sizeof(T), true);
  *p = v;
}
#else
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline void __stcs(T* p, std::type_identity_t<T> v) { *p = v; }
#endif
template <class T> inline T __ldcg(const T* p) { return __ldcs(p); }
template <class T> inline void __stcg(T* p, std::type_identity_t<T> v) { __stcs(p, v); }

#define REN_SHIM_ATOMIC(name, expression)                                                                         \
  template <class T> __attribute__((noinline, no_sanitize("thread"))) T name(T* p, std::type_identity_t<T> v) { \
    renshim::note_atomic(p, sizeof(T), __builtin_return_address(0));                                                                           \
    T old = *p;                                                                                                   \
    *p = (expression);                                                                                            \
    return old;                                                                                                   \
  }
REN_SHIM_ATOMIC(atomicAdd, old + v)
REN_SHIM_ATOMIC(atomicOr, old | v)
REN_SHIM_ATOMIC(atomicAnd, old & v)
REN_SHIM_ATOMIC(atomicXor, old ^ v)
REN_SHIM_ATOMIC(atomicMax, old < v ? v : old)
REN_SHIM_ATOMIC(atomicMin, v < old ? v : old)
REN_SHIM_ATOMIC(atomicExch, v)
template <class T>
__attribute__((noinline, no_sanitize("thread"))) T atomicCAS(T* p, std::type_identity_t<T> compare, std::type_identity_t<T> v) {
  renshim::note_atomic(p, sizeof(T), __builtin_return_address(0));
  T old = *p;
  if (old == compare) *p = v;
  return old;
}
