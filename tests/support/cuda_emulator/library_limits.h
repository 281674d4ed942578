// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cuda {

/// What the emulated libraries refuse, so that tests reach what is done instead. A test that
/// changes it puts it back.
struct LibraryLimits {
  bool matrix_bias = true;               ///< MatrixEpilogue::bias
  bool convolution_bias = true;          ///< of bf16 convolutions; those in fp32 take none
  bool fp32_gradients_from_bf16 = true;  ///< of weights of convolutions
};
LibraryLimits& library_limits();

}  // namespace lockstep::cuda
