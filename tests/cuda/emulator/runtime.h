// What the scheduler and the checks of the host shim know of each other.
#pragma once
#include "host_shim.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace renshim {
struct Fiber;
enum State { kNew, kAtBarrier, kAtWarp, kReady, kDone };
struct Thread {
  Fiber* fiber = nullptr;
  dim3 index;
  unsigned linear = 0, warp = 0, lane = 0;
  State state = kNew;
  int line = 0, source = 0;
  u64 value = 0, result = 0;
  unsigned epoch = 0, warp_epoch = 0;  // block barriers and whole-warp __syncwarp passed
};

struct Settings {
  unsigned order = 2;  // 0 sequential, 1 reverse, 2 random
  u64 seed = 1;
  unsigned profile = 0, max_findings = 64;
};
extern Settings settings;
extern const Module* module;           // whose kernel runs
extern Thread* cur;                    // null outside kernels
extern bool running;
extern unsigned block_run, launch_run;  // numbers of the present block and launch, counted since the start
extern char *dynamic_base, *stacks_begin, *stacks_end;
extern size_t dynamic_bytes;
constexpr size_t kSharedGuard = 4096;
constexpr char kPoison = (char)0xcb;

__attribute__((format(printf, 1, 2))) std::string format(const char* f, ...);
// Two findings of one key count as one; without a key, the kind and the two addresses are the key.
void report(const char* kind, const std::string& text, u64 pc = 0, u64 other = 0, const std::string& key = "");
[[noreturn]] void fatal();  // leaves the kernel for good

// Checks: called around each block.
void block_begin();
void block_end();
std::string profile_rows();
}  // namespace renshim
