// SPDX-License-Identifier: Apache-2.0
#include "core/exec/batch_predictor.h"

#include "core/base/check.h"
#include "core/data/augment/augment_image.h"
#include "core/nn/trace.h"
#include "lockstep/precision.h"

namespace lockstep {

BatchPredictor::BatchPredictor(Backend& backend,
                               const ModelFunction& model,
                               const data::SampleSpec& spec,
                               std::int64_t samples,
                               Precision precision,
                               const std::string& weights,
                               bool mirrors)
    : backend_(backend),
      input_bytes_(std::size_t(samples) * spec.input.bytes()),
      sample_(spec.input.shape),
      mirrored_(mirrors ? input_bytes_ : 0) {
  LOCKSTEP_CHECK(!mirrors || (spec.input.dtype == DType::u8 && sample_.rank() == 3),
                 ConfigError,
                 "`tta` flip: expected images, u8[H, W, C], got {}",
                 spec.input.to_string());
  Graph graph = trace_prediction(
      model, spec, {.micro_batch = samples, .precision = precision, .mirrors = mirrors});
  space_ = prediction_space(graph);
  shape_ = graph.value(graph.outputs().front().second).type.shape;
  prediction_.resize(std::size_t(shape_.elems()));
  program_ = std::make_unique<Program>(std::move(graph), backend, space_, MemoryReuse::on);
  Program* const program = program_.get();
  parameters_ =
      std::make_unique<LoadedParameters>(backend, space_, std::span(&program, 1), weights);
}

const std::vector<float>& BatchPredictor::run(const void* input) {
  auto* const place = static_cast<std::byte*>(program_->input(kInputName));
  backend_.copy_to_device(place, input, input_bytes_);
  if (!mirrored_.empty()) {
    const auto bytes = std::size_t(sample_.elems());
    for (std::size_t at = 0; at < input_bytes_; at += bytes)
      data::mirror(sample_, static_cast<const std::byte*>(input) + at, mirrored_.data() + at);
    backend_.copy_to_device(place + input_bytes_, mirrored_.data(), input_bytes_);
  }
  program_->run_forward({});
  backend_.copy_to_host(
      prediction_.data(), program_->output(kPredictionName), prediction_.size() * sizeof(float));
  return prediction_;
}

}  // namespace lockstep
