// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs batch_norm_moments_reference(const ReferenceArgs& args);
ReferenceOutputs batch_norm_normalize_reference(const ReferenceArgs& args);
ReferenceOutputs batch_norm_bwd_sums_reference(const ReferenceArgs& args);
ReferenceOutputs batch_norm_residual_bwd_sums_reference(const ReferenceArgs& args);
ReferenceOutputs batch_norm_bwd_data_reference(const ReferenceArgs& args);
ReferenceOutputs batch_norm_inference_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
