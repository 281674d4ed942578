// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <string>

#include "kernels/cpu/isa.h"

namespace lockstep::test {

/// Calls `body()` once for each instruction set that this processor has; what it makes or chooses
/// uses the loops of that set.
template <typename Body>
void for_each_isa(Body body) {
  struct Restore {
    ~Restore() { cpu::use_isa(cpu::best_isa()); }
  } restore;
  for (cpu::Isa isa : {cpu::Isa::neon, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (isa < cpu::baseline_isa() || isa > cpu::best_isa()) continue;
    SCOPED_TRACE(std::string(cpu::name_of(isa)));
    cpu::use_isa(isa);
    body();
  }
}

}  // namespace lockstep::test
