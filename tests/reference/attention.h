// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs attention_reference(const ReferenceArgs& args);
ReferenceOutputs attention_bwd_reference(const ReferenceArgs& args);
/// The largest L2 norm of a column of the weights p over samples and heads, for a forward node.
double largest_column_norm(const ReferenceArgs& args);

}  // namespace lockstep::test
