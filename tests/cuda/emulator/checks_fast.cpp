// Fast builds: shared memory is poisoned before each block, and damage behind its end is looked for afterwards.
#include "runtime.h"

namespace renshim {
void block_begin() {
  memset(dynamic_base, kPoison, dynamic_bytes);
  if (module->shared_begin) memset(module->shared_begin, kPoison, (size_t)(module->shared_end - module->shared_begin));
}

void block_end() {
  for (size_t i = 0; i < kSharedGuard; i++)
    if (dynamic_base[dynamic_bytes + i] != kPoison) {
      report("shared-guard", format("dynamic shared memory written %zu bytes past its end of %zu", i, dynamic_bytes), 0, 0, "guard");
      return;
    }
}

void note_atomic(const void*, int, const void*) {}
void note_constant(const void*, int) {}
void note_wide(const void*, int, bool) {}
std::string profile_rows() { return ""; }
}  // namespace renshim

EXPORT void renshim_register(char*, size_t, size_t, const char*) {}
EXPORT void renshim_unregister(char*) {}
EXPORT void renshim_written(char*, size_t) {}
