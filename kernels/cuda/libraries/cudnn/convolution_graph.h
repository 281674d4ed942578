// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/libraries/cudnn/cudnn_descriptor.h"

namespace lockstep::cuda {

/// What tensors are called between a graph and the pointers it is run with.
enum ConvolutionTensor : std::int64_t { kX = 1, kWeight, kY, kBias, kSum };

/// The operations of a convolution as cuDNN's backend interface describes them: one, or two where a
/// bias is added to the fp32 sums before they are stored. cuDNN tells groups by the channels of the
/// weight. Needs no device. Throws what check(cudnnStatus_t) throws, with `what`.
std::vector<CudnnDescriptor> describe_convolution(const ConvolutionSpec& spec,
                                                  const std::string& what);

}  // namespace lockstep::cuda
