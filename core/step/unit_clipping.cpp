// SPDX-License-Identifier: Apache-2.0
#include "core/step/unit_clipping.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/plan/hidden_matrices.h"

namespace lockstep {
namespace {

/// Of all trained parameters but the head's.
std::vector<UnitTensor> clipped_tensors(const Graph& graph, const FlatSpace& space) {
  const std::vector<int> head = head_parameters(graph);
  std::vector<UnitTensor> tensors;
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen || segment.elems == 0 ||
        std::ranges::find(head, segment.parameter) != head.end())
      continue;
    const Shape& shape = parameter.shape;
    const std::int64_t unit = shape.rank() < 2 ? segment.elems : segment.elems / shape[0];
    tensors.push_back({segment.offset, segment.elems, unit});
  }
  return tensors;
}

}  // namespace

UnitClipping::UnitClipping(Backend& backend,
                           const Graph& graph,
                           const FlatSpace& space,
                           float factor,
                           const float* parameters,
                           float* gradients,
                           const GradientSpace& places,
                           const Ownership& ownership,
                           OwnerExchange* owners)
    : backend_(backend),
      clip_{.gradients = gradients, .weights = parameters, .factor = factor},
      places_(places) {
  const std::vector<UnitTensor> tensors = clipped_tensors(graph, space);
  LOCKSTEP_CHECK(!tensors.empty(),
                 ConfigError,
                 "`clip_agc` {} clips nothing: no parameter but the last layer's is trained, and "
                 "that is not clipped",
                 factor);
  units_.emplace(backend, space, tensors, ownership, owners);
  for (const OwnedUnits::Part& part : units_->parts())
    ranges_.insert(ranges_.end(), part.ranges.begin(), part.ranges.end());
  if (units_->units_in_parts() == 0) return;
  norms_ = backend.allocate(2 * std::size_t(units_->units_in_parts()) * sizeof(double),
                            "squared norms of units");
  clip_.weight_norms = norms_->as<double>();
  clip_.gradient_norms = gradient_norms();
}

void UnitClipping::run(const StepOutcome* outcome) {
  exchange_norms();
  clip_.outcome = outcome;
  if (!places_.divided()) return backend_.clip_units(clip_, ranges_);
  for (const OwnedUnits::Part& part : units_->parts()) {
    UnitClip clip = clip_;
    clip.gradients += places_.shift_of(part.stretch);
    backend_.clip_units(clip, part.ranges);
  }
}

void UnitClipping::exchange_norms() {
  if (!norms_) return;
  units_->start_norms(clip_.weights, norms_->as<double>());
  if (places_.divided())
    units_->start_norms_of_owned(clip_.gradients, gradient_norms());
  else
    units_->start_norms(clip_.gradients, gradient_norms());
}

std::size_t UnitClipping::bytes() const { return units_->bytes() + (norms_ ? norms_->bytes() : 0); }

}  // namespace lockstep
