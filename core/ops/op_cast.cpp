// SPDX-License-Identifier: Apache-2.0
#include "core/ops/add.h"
#include "core/ops/all_gather.h"
#include "core/ops/attention.h"
#include "core/ops/avg_pool2d.h"
#include "core/ops/batch_norm.h"
#include "core/ops/cast.h"
#include "core/ops/conv2d.h"
#include "core/ops/dropout.h"
#include "core/ops/embedding.h"
#include "core/ops/gelu.h"
#include "core/ops/global_avg_pool.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "core/ops/max_pool2d.h"
#include "core/ops/mean_squared_error.h"
#include "core/ops/normalize.h"
#include "core/ops/relu.h"
#include "core/ops/reshape.h"
#include "core/ops/scale.h"
#include "core/ops/softmax_cross_entropy.h"

namespace lockstep {

// Backends walk the operator list knowing the classes by name alone, so op_cast is instantiated
// here for each of them.
#define LOCKSTEP_OP(Type, stem) template const ops::Type& op_cast<ops::Type>(const Operator&);
#include "core/ops/op_list.inc"
#undef LOCKSTEP_OP

}  // namespace lockstep
