// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.h"
#include "parallel/replica/compiled_programs.h"

namespace lockstep {

/// A size that images have in some epochs before the last.
struct ImageSizeUse {
  std::int64_t side = 0;
  std::size_t arena_bytes = 0;  ///< of a whole micro-batch's training
  double flops = 0;             ///< of a whole micro-batch's training
};

/// Of the sizes of `train` but the last, the largest first; nothing where images do not grow.
std::vector<ImageSizeUse> image_size_uses(const CompiledPrograms& programs,
                                          const data::Dataset& train);

/// Of one run of a program.
double flops_of(const Program& program);

}  // namespace lockstep
