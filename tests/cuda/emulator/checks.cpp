// Check builds: bounds, races, uninitialised reads, alignment, the promise of __ldg, undefined behaviour, access counts.
//
// Kernels are compiled with -fsanitize=thread,undefined but the sanitizer libraries are NOT linked. The compiler then calls
// __tsan_read8(address) and so on before every access that may reach memory, and this file defines those functions. The unmodified
// kernel source is thereby checked like under compute-sanitizer, without preloading anything. This file is not instrumented.
//
// Rule for races: two accesses, at least one a write, are ordered only if they are of the same thread, or a block barrier lies between, or,
// within a warp, a __syncwarp of the whole warp. Blocks are never ordered within a launch. Atomics do not race with atomics. With
// barriers as the only ordering, this finds a race on every word that has one in the executed access pattern, whatever order the threads ran in.
//
// What it does not see: accesses that another order or other data would make; ordering through atomics or fences, which it does not accept
// (it reports a race); whether values are right. A thread's own variables are not tracked: those that nothing wrote hold the compiler's
// pattern (-ftrivial-auto-var-init), so that results are wrong every time.
#include "runtime.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <unordered_map>

namespace renshim {
struct Cell {  // one per 4 bytes; zero means never accessed
  unsigned w_run, w_block, w_epoch, w_warp_epoch, w_pc;
  unsigned r_run, r_block, r_epoch, r_warp_epoch, r_pc;
  unsigned ldg_run;  // launch in which __ldg read it
  unsigned short w_thread, r_thread;
  bool w_atomic, w_many, w_many_warps, w_many_blocks;  // several threads wrote, which only atomics may
  bool r_many, r_many_warps, r_many_blocks;
};
struct Region {
  char* base = nullptr;
  size_t bytes = 0, guard = 0;
  std::string name;
  bool shared = false;
  Cell* cells = nullptr;    // from calloc: pages that no kernel touches cost nothing
  std::vector<bool> init;   // per cell
  size_t capacity = 0;
  void resize(size_t size) {
    bytes = size;
    const size_t count = (size + 3) / 4;
    init.assign(count, false);
    if (count <= capacity) return;
    free(cells);
    cells = static_cast<Cell*>(calloc(count, sizeof(Cell)));
    if (!cells) abort();
    capacity = count;
  }
};
static std::map<char*, Region> regions;  // by start of the guard zone
static Region dynamic_region, static_region;
static Region* last_region = nullptr;

// ---------------------------------------------------------------- access counts (profile)
struct Request { unsigned size; bool write, shared; std::vector<std::pair<unsigned, u64>> lanes; };
struct Counter { u64 requests = 0, lanes = 0, wavefronts = 0, ideal_wavefronts = 0, sectors = 0, ideal_sectors = 0, bytes = 0; bool shared = false, write = false; unsigned size = 0; };
static std::map<std::pair<unsigned, std::pair<u64, unsigned>>, Request> requests;  // (warp, (pc, visit))
static std::vector<std::unordered_map<u64, unsigned>> visits;                       // per thread: executions of each access instruction
static std::map<u64, Counter> counters;

static void count_bank_conflicts(const Request& q, Counter& c) {
  // A warp's 8-byte accesses are served in halves, 16-byte ones in quarters: 128 bytes per wavefront.
  const unsigned group = q.size <= 4 ? 32 : q.size == 8 ? 16 : 8;
  for (unsigned first = 0; first < 32; first += group) {
    std::map<unsigned, std::set<u64>> banks;
    for (auto& l : q.lanes)
      if (l.first >= first && l.first < first + group)
        for (unsigned w = 0; w < std::max(1u, q.size / 4); w++) banks[(unsigned)((l.second / 4 + w) % 32)].insert(l.second / 4 + w);
    size_t worst = 0;
    for (auto& b : banks) worst = std::max(worst, b.second.size());
    c.wavefronts += worst;
    c.ideal_wavefronts += worst ? 1 : 0;
  }
}
static void count_sectors(const Request& q, Counter& c) {
  std::set<u64> sectors, words;
  for (auto& l : q.lanes) {
    sectors.insert(l.second / 32);
    sectors.insert((l.second + q.size - 1) / 32);
    words.insert(l.second);
  }
  c.sectors += sectors.size();
  c.ideal_sectors += (words.size() * q.size + 31) / 32;
}
static void count_requests() {
  for (auto& [key, q] : requests) {
    Counter& c = counters[key.second.first];
    c.requests++;
    c.lanes += q.lanes.size();
    c.bytes += q.lanes.size() * q.size;
    c.shared = q.shared;
    c.write = q.write;
    c.size = q.size;
    if (q.shared) count_bank_conflicts(q, c);
    else count_sectors(q, c);
  }
  requests.clear();
}
std::string profile_rows() {
  std::string text;
  for (auto& [pc, c] : counters)
    text += (text.empty() ? "" : ",") +
            format("{\"pc\":%llu,\"space\":\"%s\",\"kind\":\"%s\",\"size\":%u,\"requests\":%llu,\"lanes\":%llu,\"bytes\":%llu,"
                   "\"wavefronts\":%llu,\"ideal_wavefronts\":%llu,\"sectors\":%llu,\"ideal_sectors\":%llu}",
                   pc, c.shared ? "shared" : "global", c.write ? "write" : "read", c.size, c.requests, c.lanes, c.bytes, c.wavefronts,
                   c.ideal_wavefronts, c.sectors, c.ideal_sectors);
  counters.clear();
  return text;
}

// ---------------------------------------------------------------- blocks
void block_begin() {
  dynamic_region.shared = static_region.shared = true;
  dynamic_region.base = dynamic_base;
  dynamic_region.guard = kSharedGuard;
  dynamic_region.name = "dynamic shared memory";
  dynamic_region.resize(dynamic_bytes);
  static_region.base = module->shared_begin;
  static_region.name = "static shared memory";
  static_region.resize(module->shared_begin ? (size_t)(module->shared_end - module->shared_begin) : 0);
  memset(dynamic_base, kPoison, dynamic_bytes);
  if (static_region.bytes) memset(static_region.base, kPoison, static_region.bytes);
  last_region = nullptr;
  if (settings.profile) visits.assign(block_dim.x * block_dim.y * block_dim.z, {});
}
void block_end() { count_requests(); }

// ---------------------------------------------------------------- accesses
static Region* find(char* a, size_t size) {
  if (last_region && a >= last_region->base && a + size <= last_region->base + last_region->bytes) return last_region;
  for (Region* r : {&dynamic_region, &static_region})
    if (r->bytes + r->guard && a >= r->base - r->guard && a < r->base + r->bytes + r->guard) return r;
  auto it = regions.upper_bound(a);
  if (it == regions.begin()) return nullptr;
  Region* r = &std::prev(it)->second;
  return a >= r->base + r->bytes + r->guard ? nullptr : r;
}

// Leaves the kernel, as a GPU does: the host may have made an aligned vector move of the access, which would end the whole process.
static void check_alignment(const char* a, size_t size, u64 pc, const std::string& where) {
  if (size > 16 || !((u64)a % size)) return;
  report("misaligned", format("%zu-byte access%s", size, where.c_str()), pc);
  fatal();
}

// The region that holds all `size` bytes, or null for memory that is not checked. Leaves the kernel when out of bounds or misaligned.
static Region* locate(char* a, size_t size, bool write, u64 pc) {
  if (a >= stacks_begin && a < stacks_end) return nullptr;  // a thread's own stack
  Region* r = find(a, size);
  if (!r) {
    if (a >= module->begin && a < module->end) {  // constants of the module
      if (write) report("module-write", "writes a module variable", pc);
      return nullptr;
    }
    report("out-of-bounds", format("%s of %zu bytes at an address outside all memory (never allocated, or freed)", write ? "write" : "read", size), pc);
    fatal();
  }
  last_region = r;
  const long offset = (long)(a - r->base);
  if (offset < 0 || offset + (long)size > (long)r->bytes) {
    report("out-of-bounds", format("%s of %zu bytes at offset %ld of %s (%zu bytes)", write ? "write" : "read", size, offset, r->name.c_str(), r->bytes), pc);
    fatal();
  }
  check_alignment(a, size, pc, format(" at offset %ld of %s", offset, r->name.c_str()));
  return r;
}

static bool written_before(const Cell& c, unsigned block) {
  if (c.w_many_blocks || c.w_block != block) return false;
  if (c.w_epoch < cur->epoch || (!c.w_many && c.w_thread == cur->linear)) return true;
  return !c.w_many_warps && c.w_thread / 32u == cur->warp && c.w_warp_epoch < cur->warp_epoch;
}
static bool read_before(const Cell& c, unsigned block) {
  if (c.r_many_blocks || c.r_block != block) return false;
  if (c.r_epoch < cur->epoch || (!c.r_many && c.r_thread == cur->linear)) return true;
  return !c.r_many_warps && c.r_thread / 32u == cur->warp && c.r_warp_epoch < cur->warp_epoch;
}
// The writers before this one still matter if they are not ordered before it: a plain access that comes later is ordered after all of them or races.
static void note_write(Cell& c, unsigned run, unsigned block, unsigned pc, bool atomic) {
  if (c.w_run != run || !atomic || !c.w_atomic) {
    c.w_many = c.w_many_warps = c.w_many_blocks = false;
  } else if (c.w_block != block) {
    c.w_many_blocks = true;
  } else if (c.w_epoch < cur->epoch) {
    c.w_many = c.w_many_warps = false;
  } else {
    if (c.w_thread / 32u != cur->warp) c.w_many_warps = true;
    if (!c.w_many_warps && c.w_warp_epoch < cur->warp_epoch) c.w_many = false;
    else if (c.w_thread != cur->linear) c.w_many = true;
  }
  c.w_run = run, c.w_block = block, c.w_thread = (unsigned short)cur->linear, c.w_epoch = cur->epoch, c.w_warp_epoch = cur->warp_epoch;
  c.w_pc = pc, c.w_atomic = atomic;
}
static void note_read(Cell& c, unsigned run, unsigned block, unsigned pc) {
  if (c.r_run != run) {
    c.r_many = c.r_many_warps = c.r_many_blocks = false;
  } else if (c.r_block != block) {
    c.r_many_blocks = true;
  } else if (c.r_epoch < cur->epoch) {
    c.r_many = c.r_many_warps = false;  // a barrier lies between: the earlier readers no longer matter to this block
  } else {
    if (c.r_thread / 32u != cur->warp) c.r_many_warps = true;
    if (!c.r_many_warps && c.r_warp_epoch < cur->warp_epoch) c.r_many = false;
    else if (c.r_thread != cur->linear) c.r_many = true;
  }
  c.r_run = run, c.r_block = block, c.r_thread = (unsigned short)cur->linear, c.r_epoch = cur->epoch, c.r_warp_epoch = cur->warp_epoch;
  c.r_pc = pc;
}

static void access(void* address, size_t size, bool write, u64 pc, bool atomic) {
  if (!running) return;
  char* a = static_cast<char*>(address);
  Region* r = locate(a, size, write, pc);
  if (!r) return;
  const long offset = (long)(a - r->base);
  const unsigned run = r->shared ? block_run : launch_run;
  const unsigned block = block_index.x + grid_dim.x * (block_index.y + grid_dim.y * block_index.z);
  const unsigned short_pc = (unsigned)(pc - (u64)module->begin);
  for (size_t i = (size_t)offset / 4; i <= ((size_t)offset + size - 1) / 4; i++) {
    Cell& c = r->cells[i];
    const bool after_write = c.w_run == run && !(atomic && c.w_atomic) && !written_before(c, block);
    const bool after_read = write && c.r_run == run && !after_write && !read_before(c, block);
    if (after_write || after_read) {
      const unsigned other = after_write ? c.w_pc : c.r_pc;
      report("race", format("%s at offset %ld of %s: %s block %u thread %u, no barrier between",
                            !write ? "read after write" : after_write ? "write after write" : "write after read", offset, r->name.c_str(),
                            after_write ? "written by" : "read by", after_write ? c.w_block : c.r_block, after_write ? c.w_thread : c.r_thread),
             pc, other ? other + (u64)module->begin : 0);
    }
    if ((!write || atomic) && !r->init[i]) report("uninitialised", format("reads offset %ld of %s before anything wrote it", offset, r->name.c_str()), pc);
    if (write && c.ldg_run == launch_run) report("ldg", format("writes offset %ld of %s, which __ldg reads in the same launch", offset, r->name.c_str()), pc);
    if (write) {
      note_write(c, run, block, short_pc, atomic);
      r->init[i] = true;
    }
    if (!write) note_read(c, run, block, short_pc);
  }
  if (settings.profile) {
    Request& q = requests[{cur->warp, {pc - (u64)module->begin, visits[cur->linear][pc]++}}];
    q.size = (unsigned)size;
    q.write = write;
    q.shared = r->shared;
    q.lanes.push_back({cur->lane, (u64)offset});
  }
}

// Accesses that are wider than what the compiler makes of them on the host: the device needs their full alignment.
void note_wide(const void* address, int size, bool) {
  if (running) check_alignment((const char*)address, (size_t)size, (u64)__builtin_return_address(0), "");
}
void note_constant(const void* address, int size) {
  char* a = (char*)address;
  if (!running) return;
  const u64 pc = (u64)__builtin_return_address(0);
  check_alignment(a, (size_t)size, pc, "");
  Region* r = find(a, (size_t)size);
  if (!r || a < r->base || a + size > r->base + r->bytes) return;  // the access that follows is reported
  if (r->shared) report("ldg", "__ldg on shared memory", pc);
  for (size_t i = (size_t)(a - r->base) / 4; i <= (size_t)(a + size - 1 - r->base) / 4; i++) {
    if (r->cells[i].w_run == launch_run && !r->shared)
      report("ldg", format("__ldg reads offset %ld of %s, written in the same launch", (long)(a - r->base), r->name.c_str()), pc);
    r->cells[i].ldg_run = launch_run;
  }
}
void note_atomic(const void* a, int size, const void* pc) { access(const_cast<void*>(a), (size_t)size, true, (u64)pc, true); }
}  // namespace renshim

using renshim::access;
#define PC ((unsigned long long)__builtin_return_address(0))
#define HOOK(n)                                                                        \
  extern "C" void __tsan_read##n(void* a) { access(a, n, false, PC, false); }          \
  extern "C" void __tsan_write##n(void* a) { access(a, n, true, PC, false); }          \
  extern "C" void __tsan_volatile_read##n(void* a) { access(a, n, false, PC, false); } \
  extern "C" void __tsan_volatile_write##n(void* a) { access(a, n, true, PC, false); }
#pragma GCC visibility push(default)
HOOK(1) HOOK(2) HOOK(4) HOOK(8) HOOK(16)
#define HOOK_UNALIGNED(n)                                                              \
  extern "C" void __tsan_unaligned_read##n(void* a) { access(a, n, false, PC, false); } \
  extern "C" void __tsan_unaligned_write##n(void* a) { access(a, n, true, PC, false); }
HOOK_UNALIGNED(2) HOOK_UNALIGNED(4) HOOK_UNALIGNED(8) HOOK_UNALIGNED(16)
extern "C" void __tsan_read_range(void* a, size_t n) { access(a, n, false, PC, false); }
extern "C" void __tsan_write_range(void* a, size_t n) { access(a, n, true, PC, false); }
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
// Undefined-behaviour handlers: each gets a record that starts with file, line and column.
struct UbLocation { const char* file; unsigned line, column; };
static void undefined(const char* what, void* data) {
  auto* l = static_cast<UbLocation*>(data);
  renshim::report("undefined-behaviour", renshim::format("%s at %s:%u:%u", what, l->file ? l->file : "?", l->line, l->column), 0, 0,
                  renshim::format("ub%s%u%u", what, l->line, l->column));
}
#define UB(name) extern "C" void __ubsan_handle_##name(void* data) { undefined(#name, data); }
UB(add_overflow) UB(sub_overflow) UB(mul_overflow) UB(negate_overflow) UB(divrem_overflow) UB(shift_out_of_bounds)
UB(out_of_bounds) UB(type_mismatch_v1) UB(load_invalid_value) UB(pointer_overflow) UB(builtin_unreachable)
UB(missing_return) UB(float_cast_overflow) UB(invalid_builtin) UB(vla_bound_not_positive) UB(nonnull_arg)
UB(nonnull_return_v1) UB(alignment_assumption)
#pragma GCC visibility pop

using renshim::regions;
EXPORT void renshim_register(char* base, size_t bytes, size_t guard, const char* name) {
  renshim::Region& r = regions[base - guard];
  r.base = base;
  r.guard = guard;
  r.name = name;
  r.resize(bytes);
  renshim::last_region = nullptr;
}
EXPORT void renshim_unregister(char* base_of_guard) {
  auto it = regions.find(base_of_guard);
  if (it == regions.end()) return;
  free(it->second.cells);
  regions.erase(it);
  renshim::last_region = nullptr;
}
EXPORT void renshim_written(char* address, size_t bytes) {  // by the host
  renshim::Region* r = renshim::find(address, bytes);
  if (!r) return;
  const size_t first = (size_t)(address - r->base) / 4;
  std::fill(r->init.begin() + (long)first, r->init.begin() + (long)(first + bytes / 4), true);
}
