// SPDX-License-Identifier: Apache-2.0
#include "core/step/tensor_norms.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/plan/norm_block.h"

namespace lockstep {
namespace {

std::int64_t blocks_of(std::int64_t elems) { return (elems + kNormBlock - 1) / kNormBlock; }

}  // namespace

TensorNorms::TensorNorms(Backend& backend, std::vector<FlatRange> tensors, OwnerExchange* owners)
    : backend_(backend), tensors_(std::move(tensors)), owners_(owners) {
  if (owners_ == nullptr)
    backend_.reserve_norms(tensors_);
  else if (!tensors_.empty())
    deal_blocks();
}

void TensorNorms::deal_blocks() {
  std::int64_t blocks = 0;
  for (const FlatRange& tensor : tensors_) ends_.push_back(blocks += blocks_of(tensor.elems));
  std::vector<std::int32_t> places(std::size_t(blocks), -1);
  std::int64_t place = 0;
  for (int rank = 0; rank < owners_->ranks(); ++rank) {
    const Ownership owned(owners_->space(), rank);
    const std::int64_t first = place;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const FlatRange& tensor = tensors_[t];
      const std::int64_t first_block = ends_[t] - blocks_of(tensor.elems);
      for (const OwnedStretch& part : owned.within(tensor.offset, tensor.elems)) {
        if (part.everywhere && rank != 0) continue;
        const std::int64_t begin = part.offset - tensor.offset;
        LOCKSTEP_ASSERT(begin % kNormBlock == 0);
        if (rank == owners_->rank()) {
          own_.push_back({.offset = part.offset, .elems = part.elems, .first = place});
          own_alone_.push_back({.offset = part.local, .elems = part.elems, .first = place});
        }
        for (std::int64_t b = 0; b < blocks_of(part.elems); ++b)
          places[std::size_t(first_block + begin / kNormBlock + b)] = std::int32_t(place++);
      }
    }
    counts_.push_back(place - first);
  }
  LOCKSTEP_ASSERT(place == blocks && std::ranges::find(places, -1) == places.end());
  const auto bytes = std::size_t(blocks) * sizeof(double);
  by_owner_ = backend_.allocate(bytes, "squared norms of blocks");
  ordered_ = backend_.allocate(bytes, "squared norms of blocks");
  places_ = backend_.allocate(places.size() * sizeof(std::int32_t), "places of blocks");
  backend_.copy_to_device(places_->data(), places.data(), places_->bytes());
}

void TensorNorms::start(const float* values, const std::vector<BlockRange>& own, double* result) {
  if (tensors_.empty()) return;
  if (owners_ == nullptr) return backend_.start_squared_norms(values, tensors_, result);
  auto* const by_owner = by_owner_->as<double>();
  backend_.start_block_norms(values, own, by_owner);
  owners_->all_gather(by_owner, counts_);
  backend_.gather(by_owner, places_->as<std::int32_t>(), ends_.back(), ordered_->as<double>());
  backend_.add_in_order(ordered_->as<double>(), ends_, result);
}

std::size_t TensorNorms::bytes() const {
  std::size_t sum = 0;
  for (const auto* buffer : {&by_owner_, &ordered_, &places_})
    if (*buffer) sum += (*buffer)->bytes();
  return sum;
}

}  // namespace lockstep
