// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/nn/trace.h"
#include "lockstep/zoo.h"

namespace lockstep {

/// A training graph of `model` on f32 samples with `classes` classes.
inline Graph trace_classifier(const ModelFunction& model,
                              const Shape& sample,
                              int classes,
                              std::int64_t micro_batch,
                              Mode mode = Mode::training) {
  data::SampleSpec spec;
  spec.input = {sample, DType::f32};
  spec.target = {Shape{}, DType::i32};
  spec.classes = classes;
  BuilderSettings settings;
  settings.mode = mode;
  settings.micro_batch = micro_batch;
  return trace(model, softmax_cross_entropy, spec, settings);
}

/// A training graph of a small gpt; each layer has 4 hidden matrices.
inline Graph trace_gpt(bool tied_head, int layers = 1) {
  data::SampleSpec spec;
  spec.input = spec.target = {Shape{8}, DType::i32};
  spec.classes = 11;
  BuilderSettings settings;
  settings.micro_batch = 2;
  nn::ModelSpec model{.name = "gpt", .outputs = 11};
  model.layers = layers;
  model.heads = 1;
  model.width = 16;
  model.context = 8;
  model.tied_head = tied_head;
  return trace(nn::make_model(model), softmax_cross_entropy, spec, settings);
}

}  // namespace lockstep
