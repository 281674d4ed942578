// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/graph/graph.h"
#include "core/nn/builder.h"
#include "lockstep/builder.h"
#include "lockstep/data/dataset.h"

namespace lockstep {

/// Names of the inputs of every traced program.
inline constexpr const char* kInputName = "x";
inline constexpr const char* kTargetName = "target";
inline constexpr const char* kSampleWeightName = "sample_weight";
/// Of training with BuilderSettings::distilled: [N, K] f32.
inline constexpr const char* kTeacherName = "teacher";

/// Runs the model once for a micro-batch of `settings.micro_batch` samples: inputs, Normalize where
/// the samples ask for it, model, loss, and in training mode the backward pass. The graph is
/// verified. With `soft_targets` the target of training is data::soft_target() of each sample.
/// With `mirrors`, x of an evaluation is [2 N, ...], sample N + i being the mirror image of sample
/// i, and its prediction is the mean of the two, [N, K]. A model declares the same parameters in
/// the same order for every micro-batch and mode (ProgramSet checks it). Parameters that
/// `settings.freeze` names keep their values: no gradient, no update, no weight decay. Batch norm's
/// running statistics have neither and follow the data all the same. Throws ShapeError and
/// ConfigError of the model; ShapeError: it has another number of outputs than the data has
/// classes; ConfigError: the loss function does not end in a loss; soft targets of samples without
/// one class each; a pattern of `freeze` matches nothing, or all of them leave nothing to train;
/// samples have embedded columns that contradict them (check_embedded()) or that the model does not
/// embed.
Graph trace(const ModelFunction& model,
            const LossFunction& loss,
            const data::SampleSpec& samples,
            const BuilderSettings& settings);

/// What trace() made, for micro-batches of another size: the same operators over other extents.
/// Nothing where its values are not numbered inputs and parameters first, as passes number them, or
/// where an operator does not take the extents.
std::optional<Graph> with_micro_batch(const Graph& traced, std::int64_t micro_batch);
/// Whether two graphs are the same program: values, operators with their attributes, and order.
bool equal_programs(const Graph& a, const Graph& b);

/// Name of the output of trace_prediction().
inline constexpr const char* kPredictionName = "prediction";

/// The model alone, in evaluation mode: input "x", output "prediction" in fp32. Every parameter is
/// frozen. `settings.mirrors`: as in trace(). Throws as trace() of model and samples.
Graph trace_prediction(const ModelFunction& model,
                       const data::SampleSpec& samples,
                       const BuilderSettings& settings);

/// Throws ConfigError where the model declares other parameters for images of the size of `other`
/// than for those of `samples`: a vision transformer has a position for each patch. `setting` says
/// what asks for that size: "`eval_image_size`". ShapeError: it does not take that size at all.
void expect_same_parameters(const ModelFunction& model,
                            const data::SampleSpec& samples,
                            const data::SampleSpec& other,
                            const char* setting);

}  // namespace lockstep
