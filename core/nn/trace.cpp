// SPDX-License-Identifier: Apache-2.0
#include "core/nn/trace.h"

#include "core/grad/differentiate.h"

namespace lockstep {
namespace {

TensorType batch_of(const TensorType& sample, std::int64_t n) {
  std::vector<std::int64_t> dims{n};
  dims.insert(dims.end(), sample.shape.dims().begin(), sample.shape.dims().end());
  return {Shape(dims), sample.dtype};
}

}  // namespace

Graph trace(const ModelFunction& model,
            const LossFunction& loss,
            const data::SampleSpec& samples,
            const Builder::Settings& settings) {
  Graph graph;
  Builder nn(graph, settings);
  Value x(&graph, graph.add_input(kInputName, batch_of(samples.input, settings.micro_batch)));
  const Value target(&graph,
                     graph.add_input(kTargetName, batch_of(samples.target, settings.micro_batch)));
  if (!samples.scale.empty()) x = nn.normalize(x, samples.scale, samples.shift);
  const Value result = loss(nn, model(nn, x), target);
  if (settings.mode == Mode::training) differentiate(graph, result.id());
  verify(graph);
  return graph;
}

}  // namespace lockstep
