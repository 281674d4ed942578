// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The header of every operator, for what walks op_list.inc and needs whole classes.
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
