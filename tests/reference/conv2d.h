// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs conv2d_reference(const ReferenceArgs& args);
ReferenceOutputs conv2d_bwd_data_reference(const ReferenceArgs& args);
ReferenceOutputs conv2d_bwd_weights_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
