// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::cuda {

/// A kernel of attention that the emulated library offers.
enum class EmulatedOffer : std::uint8_t {
  good,
  slow,
  unsteady,          ///< stores other bits in every second run
  fails,             ///< throws when it runs
  wrong_last_token,  ///< stores zeros there
  wrong_logarithm,   ///< lse to base 2; backward: good
  wrong_scale        ///< stores 3% too much
};

/// What the emulated libraries refuse, so that tests reach what is done instead, and which of their
/// algorithms they would choose. A test that changes it puts it back.
struct LibraryLimits {
  bool matrix_bias = true;           ///< MatrixEpilogue::bias, and those with GELU after it
  bool matrix_gelu_gradient = true;  ///< MatrixEpilogue::gelu_tanh_gradient
  bool convolution_bias = true;      ///< of bf16 convolutions; those in fp32 take none
  bool fp32_from_bf16 = true;        ///< convolutions of bf16 that store fp32
  /// 0 adds the products of an element in their order, 1 from the last to the first.
  int algorithm = 0;
  int fastest = 0;     ///< the one that a timing finds to be
  int algorithms = 2;  ///< that the libraries can run: those below
  std::vector<EmulatedOffer> attention{EmulatedOffer::good};  ///< its favourite first
};
LibraryLimits& library_limits();

}  // namespace lockstep::cuda
