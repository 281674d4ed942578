// SPDX-License-Identifier: Apache-2.0
#include "core/step/owned_units.h"

#include <algorithm>

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
    for (int chunk = 0; bucket.sharded && chunk <= space.ranks; ++chunk)
      ends.push_back(bucket.offset + chunk * (bucket.elems / space.ranks));
  return ends;
}

}  // namespace

OwnedUnits::OwnedUnits(Backend& backend,
                       const FlatSpace& space,
                       std::span<const UnitTensor> tensors,
                       const Ownership& ownership,
                       OwnerExchange* owners)
    : backend_(backend) {
  const std::vector<std::int64_t> chunk_ends = owned_chunk_ends(space);
  for (const UnitTensor& tensor : tensors) add_parts(tensor, chunk_ends);
  for (const OwnedStretch& stretch : ownership.stretches()) {
    Part part{.stretch = stretch, .ranges = {}};
    for (const UnitTensor& tensor : tensors) {
      OwnedStretch own = stretch;
      own.offset = std::max(stretch.offset, tensor.offset);
      own.elems = std::min(stretch.end(), tensor.offset + tensor.elems) - own.offset;
      if (own.elems > 0) add_ranges(tensor, own, part.ranges);
    }
    if (!part.ranges.empty()) parts_.push_back(std::move(part));
  }
  if (pieces_.empty()) return;
  squares_ = backend.allocate(pieces_.size() * sizeof(double), "squared norms of pieces");
  piece_norms_.emplace(backend, pieces_, owners);
}

/// The units of a tensor that some rank's chunk ends within: the same ones on all ranks.
void OwnedUnits::add_parts(const UnitTensor& tensor, std::span<const std::int64_t> chunk_ends) {
  std::int64_t last = -1;
  auto end = std::ranges::upper_bound(chunk_ends, tensor.offset);
  for (; end != chunk_ends.end() && *end < tensor.offset + tensor.elems; ++end) {
    const std::int64_t within = *end - tensor.offset, unit = within / tensor.unit;
    if (within % tensor.unit == 0 || unit == last) continue;
    add_pieces(tensor, unit);
    last = unit;
  }
}

void OwnedUnits::add_pieces(const UnitTensor& tensor, std::int64_t unit) {
  const std::int64_t end = (unit + 1) * tensor.unit;
  for (std::int64_t i = unit * tensor.unit; i < end;) {
    const std::int64_t next = std::min(end, rounded_up(i + 1, kNormBlock));
    pieces_.push_back({.offset = tensor.offset + i, .elems = next - i});
    i = next;
  }
  ends_.push_back(std::ssize(pieces_));
  in_parts_.push_back(tensor.offset + unit * tensor.unit);
}

void OwnedUnits::add_ranges(const UnitTensor& tensor,
                            const OwnedStretch& own,
                            std::vector<UnitRange>& ranges) const {
  const std::int64_t end = own.end() - tensor.offset;
  for (std::int64_t i = own.offset - tensor.offset; i < end;) {
    const std::int64_t unit = i / tensor.unit, next = std::min(end, (unit + 1) * tensor.unit);
    const std::int64_t begin = tensor.offset + unit * tensor.unit;
    const auto part = std::ranges::lower_bound(in_parts_, begin);  // added in flat order
    if (part != in_parts_.end() && *part == begin) {
      ranges.push_back({.offset = tensor.offset,
                        .unit = tensor.unit,
                        .first = unit,
                        .norm = std::int32_t(part - in_parts_.begin()),
                        .own = i - unit * tensor.unit,
                        .own_elems = next - i});
    } else if (!ranges.empty() && ranges.back().offset == tensor.offset && ranges.back().norm < 0 &&
               ranges.back().first + ranges.back().elems == unit) {
      ++ranges.back().elems;
    } else {
      ranges.push_back({.offset = tensor.offset, .unit = tensor.unit, .first = unit});
    }
    i = next;
  }
}

void OwnedUnits::start_norms(const float* values, double* norms) {
  if (!piece_norms_) return;
  piece_norms_->start(values, squares_->as<double>());
  backend_.add_in_order(squares_->as<double>(), ends_, norms);
}

void OwnedUnits::start_norms_of_owned(const float* values, double* norms) {
  if (!piece_norms_) return;
  piece_norms_->start_of_owned(values, squares_->as<double>());
  backend_.add_in_order(squares_->as<double>(), ends_, norms);
}

std::size_t OwnedUnits::bytes() const {
  return piece_norms_ ? piece_norms_->bytes() + squares_->bytes() : 0;
}

}  // namespace lockstep
