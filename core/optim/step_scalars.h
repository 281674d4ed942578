// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Numbers of an optimizer that depend on the step alone, such as AdamW's bias corrections. The
/// host computes them once a step, in fp64; a kernel reads them by their index.
struct StepScalars {
  static constexpr int kMax = 4;
  double values[kMax] = {};
};

}  // namespace lockstep
