// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs linear_reference(const ReferenceArgs& args);
ReferenceOutputs linear_bwd_data_reference(const ReferenceArgs& args);
ReferenceOutputs linear_bwd_weights_reference(const ReferenceArgs& args);

/// Of ops::Matmul.
ReferenceOutputs matmul_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
