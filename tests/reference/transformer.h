// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs embedding_reference(const ReferenceArgs& args);
ReferenceOutputs embedding_bwd_tokens_reference(const ReferenceArgs& args);
ReferenceOutputs embedding_bwd_positions_reference(const ReferenceArgs& args);
ReferenceOutputs class_token_reference(const ReferenceArgs& args);
ReferenceOutputs narrow_reference(const ReferenceArgs& args);
ReferenceOutputs narrow_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs layer_norm_reference(const ReferenceArgs& args);
ReferenceOutputs layer_norm_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs rms_norm_reference(const ReferenceArgs& args);
ReferenceOutputs rms_norm_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs gelu_reference(const ReferenceArgs& args);
ReferenceOutputs gelu_bwd_reference(const ReferenceArgs& args);
/// x Phi(x) and its derivative, or the tanh form's.
double gelu_value(bool erf, double x);
double gelu_slope(bool erf, double x);

}  // namespace lockstep::test
