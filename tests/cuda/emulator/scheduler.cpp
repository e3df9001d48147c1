// Fibers, the threads of one block, barriers and warp operations, and the interface to Python.
#include "runtime.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <set>
#if !defined(__x86_64__) || defined(REN_SHIM_UCONTEXT)
#define USE_UCONTEXT 1
#include <ucontext.h>
#endif

namespace renshim {
dim3 block_dim, grid_dim, block_index, current_thread_index;
Settings settings;
const Module* module = nullptr;
Thread* cur = nullptr;
bool running = false;
unsigned block_run = 0, launch_run = 0;
char *dynamic_base = nullptr, *stacks_begin = nullptr, *stacks_end = nullptr;
size_t dynamic_bytes = 0;

// ---------------------------------------------------------------- findings
struct Finding { std::string kind, text; u64 pc, other_pc; };
static std::vector<Finding> findings;
static std::set<std::string> finding_keys;

std::string format(const char* f, ...) {
  char buffer[512];
  va_list a;
  va_start(a, f);
  vsnprintf(buffer, sizeof buffer, f, a);
  va_end(a);
  return buffer;
}

void report(const char* kind, const std::string& text, u64 pc, u64 other, const std::string& key) {
  if (pc) pc -= (u64)module->begin;
  if (other) other -= (u64)module->begin;
  const std::string k = key.empty() ? format("%s/%llx/%llx", kind, pc, other) : key;
  if (!finding_keys.insert(k).second || findings.size() >= settings.max_findings) return;
  std::string where;
  if (cur)
    where = format("block (%u,%u,%u) thread (%u,%u,%u): ", block_index.x, block_index.y, block_index.z,
                   cur->index.x, cur->index.y, cur->index.z);
  findings.push_back({kind, where + text, pc, other});
}

static u64 random_state;
static u64 next_random() {  // splitmix64
  u64 z = (random_state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// ---------------------------------------------------------------- fibers
constexpr size_t kStack = 128 << 10, kPage = 4096, kFibers = 1024;
struct Fiber {
#ifdef USE_UCONTEXT
  ucontext_t context;
#endif
  void* sp = nullptr;
  char* stack = nullptr;
};
static Fiber main_fiber;
static std::vector<Fiber*> free_fibers;

#ifndef USE_UCONTEXT
extern "C" void renshim_switch(void** save, void* load) __attribute__((visibility("hidden")));
asm(R"(
.text
.p2align 4
.globl renshim_switch
.hidden renshim_switch
.type renshim_switch,@function
renshim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size renshim_switch,.-renshim_switch
)");
#endif
static void fiber_entry();

static void prepare(Fiber* f) {
#ifdef USE_UCONTEXT
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = kStack;
  f->context.uc_link = nullptr;
  makecontext(&f->context, fiber_entry, 0);
#else
  void** sp = reinterpret_cast<void**>(f->stack + kStack - 64);
  std::fill(sp, sp + 8, nullptr);
  sp[6] = reinterpret_cast<void*>(&fiber_entry);
  f->sp = sp;
#endif
}

static void switch_to(Fiber* from, Fiber* to) {
#ifdef USE_UCONTEXT
  swapcontext(&from->context, &to->context);
#else
  renshim_switch(&from->sp, to->sp);
#endif
}

static void make_fibers() {
  if (stacks_begin) return;
  const size_t each = kStack + kPage;
  void* memory = mmap(nullptr, kFibers * each, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  stacks_begin = static_cast<char*>(memory);
  stacks_end = stacks_begin + kFibers * each;
  for (size_t i = kFibers; i-- > 0;) {
    mprotect(stacks_begin + i * each, kPage, PROT_NONE);  // guard page below each stack
    Fiber* f = new Fiber;
    f->stack = stacks_begin + i * each + kPage;
    free_fibers.push_back(f);
  }
}

// ---------------------------------------------------------------- threads of the present block
struct Group { unsigned mask, arrived; Op op; int line; };
static std::vector<Thread> threads;
static std::vector<std::vector<Group>> groups;  // per warp
static std::vector<unsigned> ready;
static unsigned live = 0, waiting = 0;
static int barrier_total = 0, barrier_result = 0;
static bool stop = false;
static void (*kernel_body)(void*);
static void* kernel_closure;

static void back_to_scheduler() { switch_to(cur->fiber, &main_fiber); }

void fatal() {
  stop = true;
  back_to_scheduler();
  abort();
}

static void fiber_entry() {
  for (;;) {
    kernel_body(kernel_closure);
    cur->state = kDone;
    live--;
    back_to_scheduler();
  }
}

#ifdef REN_SHIM_CHECK
dim3 thread_index() { return current_thread_index; }
dim3 get_block_index() { return block_index; }
dim3 get_block_dim() { return block_dim; }
dim3 get_grid_dim() { return grid_dim; }
#endif
int lane() { return (int)cur->lane; }
void* dynamic_shared() { return dynamic_base; }

int barrier_sum(int line, int value) {
  Thread* self = cur;
  self->state = kAtBarrier;
  self->line = line;
  barrier_total += value;
  waiting++;
  back_to_scheduler();
  return barrier_result;
}
void barrier(int line) { barrier_sum(line, 0); }

// All lanes of the mask have arrived: hand out the results and let them go on.
static void complete(unsigned warp, const Group& g) {
  const unsigned first = warp * 32;
  auto in_mask = [&](unsigned l) { return (g.mask >> l & 1) != 0; };
  unsigned votes = 0;
  bool whole = true;
  for (unsigned l = 0; l < 32 && first + l < threads.size(); l++) {
    if (in_mask(l)) votes |= (unsigned)(threads[first + l].value & 1) << l;
    else if (threads[first + l].state != kDone) whole = false;
  }
  for (unsigned l = 0; l < 32; l++) {
    if (!in_mask(l)) continue;
    Thread& t = threads[first + l];
    if (g.op == kBallot) t.result = votes;
    if (g.op == kGather && (t.source < 0 || t.source > 31 || !in_mask((unsigned)t.source))) {
      report("warp-source", format("line %d: shuffle reads lane %d, which is not in mask %08x", g.line, t.source, g.mask), 0, 0,
             format("src%d", g.line));
      t.result = 0xdeadbeefdeadbeefull;
    } else if (g.op == kGather) {
      t.result = threads[first + (unsigned)t.source].value;
    }
    if (g.op == kSync && whole) t.warp_epoch++;  // only __syncwarp orders memory; shuffles do not
    t.state = kReady;
    ready.push_back(first + l);
  }
}

u64 warp_exchange(unsigned mask, Op op, u64 value, int source, int line) {
  Thread* self = cur;
  auto& list = groups[self->warp];
  const unsigned lanes = std::min<unsigned>(32, (unsigned)threads.size() - self->warp * 32);
  if (!(mask >> self->lane & 1)) {
    report("warp-mask", format("line %d: the calling lane %u is not in mask %08x", line, self->lane, mask), 0, 0, format("mask%d", line));
    fatal();
  }
  if (lanes < 32 && mask >> lanes) {
    report("warp-mask", format("line %d: mask %08x names lanes that this warp of %u threads does not have", line, mask, lanes), 0, 0,
           format("mask%d", line));
    fatal();
  }
  Group* g = nullptr;
  for (auto& x : list)
    if (x.mask == mask && x.op == op && x.line == line && !(x.arrived >> self->lane & 1)) g = &x;
  if (!g) {
    list.push_back({mask, 0, op, line});
    g = &list.back();
  }
  self->value = value;
  self->source = source;
  self->line = line;
  self->state = kAtWarp;
  g->arrived |= 1u << self->lane;
  if (g->arrived == mask) {
    complete(self->warp, *g);
    *g = list.back();
    list.pop_back();
  }
  back_to_scheduler();
  return self->result;
}

static unsigned take_ready() {
  size_t i = ready.size() - 1;
  if (settings.order == 2) i = next_random() % ready.size();
  unsigned t = ready[i];
  ready[i] = ready.back();
  ready.pop_back();
  return t;
}
static void push_all(const std::vector<unsigned>& ids) {  // take_ready pops from the back
  if (settings.order == 0) ready.assign(ids.rbegin(), ids.rend());
  else ready.assign(ids.begin(), ids.end());
}

static void run_thread(Thread* t) {
  if (!t->fiber) {
    t->fiber = free_fibers.back();
    free_fibers.pop_back();
    prepare(t->fiber);
  }
  cur = t;
  current_thread_index = t->index;
  running = true;
  switch_to(&main_fiber, t->fiber);
  running = false;
  if (!stop && t->state == kDone) {
    free_fibers.push_back(t->fiber);
    t->fiber = nullptr;
  }
}

// Every thread that has not exited waits at a block barrier: let all go on.
static void release_barrier() {
  int line = -1;
  std::vector<unsigned> released;
  for (auto& t : threads) {
    if (t.state != kAtBarrier) continue;
    if (line >= 0 && t.line != line) {
      cur = &t;
      report("divergent-barrier", format("__syncthreads at line %d meets __syncthreads at line %d", t.line, line), 0, 0,
             format("div%d/%d", line, t.line));
    }
    line = t.line;
    t.state = kReady;
    t.epoch++;
    released.push_back(t.linear);
  }
  barrier_result = barrier_total;
  barrier_total = 0;
  waiting = 0;
  push_all(released);
}

static void report_deadlock() {
  std::string text = "threads wait for each other:";
  int shown = 0;
  for (auto& t : threads)
    if ((t.state == kAtBarrier || t.state == kAtWarp) && shown++ < 4)
      text += format(" thread %u at %s line %d;", t.linear, t.state == kAtBarrier ? "__syncthreads" : "warp operation", t.line);
  cur = nullptr;
  report("deadlock", text, 0, 0, "deadlock");
  stop = true;
}

static void run_block() {
  const unsigned n = block_dim.x * block_dim.y * block_dim.z;
  threads.resize(n);
  groups.resize((n + 31) / 32);
  for (auto& g : groups) g.clear();
  std::vector<unsigned> ids(n);
  for (unsigned i = 0; i < n; i++) {
    Thread& t = threads[i];
    t = Thread();
    t.index = dim3(i % block_dim.x, i / block_dim.x % block_dim.y, i / block_dim.x / block_dim.y);
    t.linear = i;
    t.warp = i / 32;
    t.lane = i % 32;
    ids[i] = i;
  }
  push_all(ids);
  live = n;
  waiting = 0;
  barrier_total = 0;
  block_run++;
  block_begin();
  while (live && !stop) {
    while (!ready.empty() && !stop) run_thread(&threads[take_ready()]);
    if (stop || !live) break;
    if (waiting == live) release_barrier();
    else report_deadlock();
  }
  for (auto& t : threads)
    if (t.fiber) free_fibers.push_back(t.fiber), t.fiber = nullptr;
  ready.clear();
  block_end();
  cur = nullptr;
}

int run(const Module* m, void (*body)(void*), void* closure, const unsigned* c) {
  static std::vector<char> dynamic_memory;
  make_fibers();
  module = m;
  kernel_body = body;
  kernel_closure = closure;
  grid_dim = dim3(c[0], c[1], c[2]);
  block_dim = dim3(c[3], c[4], c[5]);
  dynamic_bytes = c[6];
  dynamic_memory.assign(dynamic_bytes + 2 * kSharedGuard + 128, kPoison);
  dynamic_base = (char*)(((u64)dynamic_memory.data() + kSharedGuard + 127) & ~127ull);
  random_state = settings.seed;
  stop = false;
  launch_run++;
  const size_t before = findings.size();
  const u64 blocks = (u64)c[0] * c[1] * c[2];
  std::vector<u64> order(blocks);
  for (u64 i = 0; i < blocks; i++) order[i] = settings.order == 1 ? blocks - 1 - i : i;
  if (settings.order == 2)
    for (u64 i = blocks; i > 1; i--) std::swap(order[i - 1], order[next_random() % i]);
  for (u64 b : order) {
    block_index = dim3((unsigned)(b % c[0]), (unsigned)(b / c[0] % c[1]), (unsigned)(b / c[0] / c[1]));
    run_block();
    if (stop) break;
  }
  return (int)(findings.size() - before) + (stop ? 1 : 0);
}
}  // namespace renshim

// ---------------------------------------------------------------- interface to Python
using namespace renshim;
EXPORT void renshim_configure(unsigned order, unsigned long long seed, unsigned profile) {
  settings.order = order;
  settings.seed = seed;
  settings.profile = profile;
}
static std::string quote(const std::string& s) {
  std::string out = "\"";
  for (char ch : s) {
    if (ch == '"' || ch == '\\') out += '\\';
    out += ch;
  }
  return out + "\"";
}
EXPORT const char* renshim_findings() {  // JSON; clears the list
  static std::string text;
  text = "[";
  for (auto& f : findings)
    text += (text.size() > 1 ? "," : "") + std::string("{\"kind\":") + quote(f.kind) + ",\"text\":" + quote(f.text) +
            format(",\"pc\":%llu,\"other_pc\":%llu}", f.pc, f.other_pc);
  text += "]";
  findings.clear();
  finding_keys.clear();
  return text.c_str();
}
EXPORT const char* renshim_profile() {  // JSON, one row per access instruction; clears the counters
  static std::string text;
  text = "[" + profile_rows() + "]";
  return text.c_str();
}
