// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs relu_reference(const ReferenceArgs& args);
ReferenceOutputs relu_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs add_reference(const ReferenceArgs& args);
ReferenceOutputs dropout_reference(const ReferenceArgs& args);
ReferenceOutputs normalize_reference(const ReferenceArgs& args);
ReferenceOutputs scale_reference(const ReferenceArgs& args);
ReferenceOutputs channel_scale_reference(const ReferenceArgs& args);
ReferenceOutputs channel_scale_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs cast_reference(const ReferenceArgs& args);
/// The nearest bf16, ties to even.
double rounded_to_bf16(double value);
/// With several parts, part 0 holds the input's bits inverted, as the test's group makes it.
ReferenceOutputs all_gather_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
