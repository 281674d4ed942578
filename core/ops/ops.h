// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Forward declarations of every operator class; include the operator's own header to use one.
namespace lockstep::ops {
#define LOCKSTEP_OP(Type, stem) class Type;
#include "core/graph/op_list.inc"
#undef LOCKSTEP_OP
}  // namespace lockstep::ops
