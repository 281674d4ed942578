// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

/// Operators of llama that no other model has.
namespace lockstep::test {

ReferenceOutputs swiglu_reference(const ReferenceArgs& args);
ReferenceOutputs swiglu_bwd_reference(const ReferenceArgs& args);
ReferenceOutputs rotary_reference(const ReferenceArgs& args);
ReferenceOutputs rotary_bwd_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
