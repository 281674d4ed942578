// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/reference/reference.h"

namespace lockstep::test {

ReferenceOutputs column_embedding_reference(const ReferenceArgs& args);
ReferenceOutputs column_embedding_bwd_reference(const ReferenceArgs& args);

}  // namespace lockstep::test
