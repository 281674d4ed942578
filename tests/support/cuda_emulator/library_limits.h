// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cuda {

/// What the emulated libraries refuse, so that tests reach what is done instead. A test that
/// changes it puts it back.
struct LibraryLimits {
  bool matrix_bias = true;               ///< MatrixEpilogue::bias, and those with GELU behind it
  bool matrix_gelu_gradient = true;      ///< MatrixEpilogue::gelu_tanh_gradient
  bool matrix_sums = true;               ///< MatrixEpilogue::sums_of_a
  bool convolution_bias = true;          ///< of bf16 convolutions; those in fp32 take none
  bool fp32_gradients_from_bf16 = true;  ///< of weights of convolutions
};
LibraryLimits& library_limits();

}  // namespace lockstep::cuda
