// SPDX-License-Identifier: Apache-2.0
#include "core/step/unit_clipping.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/plan/hidden_matrices.h"
#include "core/plan/norm_block.h"

namespace lockstep {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Where ranks' chunks begin and end, in order.
std::vector<std::int64_t> owned_chunk_ends(const FlatSpace& space) {
  std::vector<std::int64_t> ends;
  for (const Bucket& bucket : space.buckets)
    for (int rank = 0; bucket.sharded && rank <= space.ranks; ++rank)
      ends.push_back(bucket.offset + rank * (bucket.elems / space.ranks));
  return ends;
}

}  // namespace

UnitClipping::UnitClipping(Backend& backend,
                           const Graph& graph,
                           const FlatSpace& space,
                           float factor,
                           const float* parameters,
                           float* gradients,
                           const Ownership& ownership,
                           OwnerExchange* owners)
    : backend_(backend), clip_{.gradients = gradients, .weights = parameters, .factor = factor} {
  const std::vector<int> head = head_parameters(graph);
  std::vector<Tensor> tensors;
  for (const Segment& segment : space.segments) {
    const Parameter& parameter = graph.parameters()[std::size_t(segment.parameter)];
    if (parameter.kind != ParameterKind::trained || parameter.frozen || segment.elems == 0 ||
        std::ranges::find(head, segment.parameter) != head.end())
      continue;
    const Shape& shape = parameter.shape;
    const std::int64_t unit = shape.rank() < 2 ? segment.elems : segment.elems / shape[0];
    tensors.push_back({segment.offset, segment.elems, unit});
  }
  LOCKSTEP_CHECK(!tensors.empty(),
                 ConfigError,
                 "`clip_agc` {} clips nothing: no parameter but the last layer's is trained, and "
                 "that is not clipped",
                 factor);
  const std::vector<std::int64_t> chunk_ends = owned_chunk_ends(space);
  for (const Tensor& tensor : tensors) add_parts(tensor, chunk_ends);
  for (const Tensor& tensor : tensors)
    for (const OwnedStretch& own : ownership.within(tensor.offset, tensor.elems))
      add_ranges(tensor, own);
  if (pieces_.empty()) return;
  squares_ = backend.allocate(pieces_.size() * sizeof(double), "squared norms of pieces");
  norms_ = backend.allocate(ends_.size() * sizeof(double), "squared norms of units");
  clip_.norms = norms_->as<double>();
  piece_norms_.emplace(backend, pieces_, owners);
}

/// The units of a tensor that some rank's chunk ends within: the same ones on all ranks.
void UnitClipping::add_parts(const Tensor& tensor, std::span<const std::int64_t> chunk_ends) {
  std::int64_t last = -1;
  auto end = std::ranges::upper_bound(chunk_ends, tensor.offset);
  for (; end != chunk_ends.end() && *end < tensor.offset + tensor.elems; ++end) {
    const std::int64_t within = *end - tensor.offset, unit = within / tensor.unit;
    if (within % tensor.unit == 0 || unit == last) continue;
    add_pieces(tensor, unit);
    last = unit;
  }
}

void UnitClipping::add_pieces(const Tensor& tensor, std::int64_t unit) {
  const std::int64_t end = (unit + 1) * tensor.unit;
  for (std::int64_t i = unit * tensor.unit; i < end;) {
    const std::int64_t next = std::min(end, rounded_up(i + 1, kNormBlock));
    pieces_.push_back({.offset = tensor.offset + i, .elems = next - i});
    i = next;
  }
  ends_.push_back(std::ssize(pieces_));
  in_parts_.push_back(tensor.offset + unit * tensor.unit);
}

void UnitClipping::add_ranges(const Tensor& tensor, const OwnedStretch& own) {
  const std::int64_t end = own.end() - tensor.offset;
  for (std::int64_t i = own.offset - tensor.offset; i < end;) {
    const std::int64_t unit = i / tensor.unit, next = std::min(end, (unit + 1) * tensor.unit);
    const std::int64_t begin = tensor.offset + unit * tensor.unit;
    const auto part = std::ranges::lower_bound(in_parts_, begin);  // added in flat order
    if (part != in_parts_.end() && *part == begin) {
      ranges_.push_back({.offset = tensor.offset,
                         .unit = tensor.unit,
                         .first = unit,
                         .norm = std::int32_t(part - in_parts_.begin()),
                         .own = i - unit * tensor.unit,
                         .own_elems = next - i});
    } else if (!ranges_.empty() && ranges_.back().offset == tensor.offset &&
               ranges_.back().norm < 0 && ranges_.back().first + ranges_.back().elems == unit) {
      ++ranges_.back().elems;
    } else {
      ranges_.push_back({.offset = tensor.offset, .unit = tensor.unit, .first = unit});
    }
    i = next;
  }
}

void UnitClipping::run(const StepOutcome* outcome) {
  exchange_norms();
  clip_.outcome = outcome;
  backend_.clip_units(clip_, ranges_);
}

void UnitClipping::exchange_norms() {
  if (!piece_norms_) return;
  piece_norms_->start(clip_.gradients, squares_->as<double>());
  backend_.add_in_order(squares_->as<double>(), ends_, norms_->as<double>());
}

std::size_t UnitClipping::bytes() const {
  return piece_norms_ ? piece_norms_->bytes() + squares_->bytes() + norms_->bytes() : 0;
}

}  // namespace lockstep
