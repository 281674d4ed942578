// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/nn/trace.h"

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

}  // namespace lockstep
