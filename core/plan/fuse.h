// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

/// Passes in which neighbouring operators become one, which spares memory traffic. (Softmax and
/// cross-entropy are one operator from the start, bias is part of linear and conv2d.) All but the
/// last two run over the forward graph, before it is differentiated: the fused operators' own
/// gradients make backward fused as well. Those that return a value return what `loss` has become.
/// Every fusion adds a note to the graph.
namespace lockstep {

/// linear or conv2d, then relu or gelu that alone reads it: one operator with an activation.
/// `training`: gelu's input is kept for backward.
ValueId fuse_activation(Graph& graph, ValueId loss, bool training);

/// batch norm, then relu, with or without a residual add between them, each of which alone reads
/// what is before it: one operator.
ValueId fuse_batch_norm_relu(Graph& graph, ValueId loss);

/// A sum that layer_norm or rms_norm reads: the norm makes the sum itself, and hands it on to other
/// readers.
ValueId fuse_residual_norm(Graph& graph, ValueId loss);

/// All of the above. Where activations may be computed again (`recompute`), activations and sums
/// stay apart from the dear products and from the norms, so that they alone can run again.
ValueId fuse(Graph& graph, ValueId loss, bool training, bool recompute = false);

/// Over the differentiated graph: a sum of two gradients that the backward of a batch norm with
/// residual and ReLU alone reads: that operator makes the sum itself. With more than two uses it
/// is fused with the last sum. The results have the same bits.
ValueId fuse_gradient_sum(Graph& graph, ValueId loss);
/// Over the differentiated graph: linear_bwd_data, then gelu_bwd that alone reads it, one operator.
/// These two belong to layers that follow each other, so that no gradient rule sees both.
void fuse_gelu_gradient(Graph& graph);

}  // namespace lockstep
