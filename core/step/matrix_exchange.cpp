// SPDX-License-Identifier: Apache-2.0
#include "core/step/matrix_exchange.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/plan/hidden_matrices.h"
#include "core/plan/matrix_deal.h"
#include "core/plan/ownership.h"

namespace lockstep {

MatrixExchange::MatrixExchange(Communicator& communicator,
                               const Graph& training,
                               const FlatSpace& space,
                               float* gradients)
    : communicator_(communicator),
      space_(space),
      gradients_(gradients),
      member_(communicator.rank()),
      members_(communicator.size()),
      owned_(std::size_t(members_)),
      to_(std::size_t(members_)),
      from_(std::size_t(members_)) {
  const std::vector<int> matrices = hidden_matrices(training);
  const std::vector<int> member_of = deal_matrices(training, members_);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const Segment& segment = space.of(matrices[i]);
    const std::int64_t end = segment.offset + segment.elems;
    if (member_of[i] == member_) own_.push_back(int(i));
    for (auto b = std::size_t(segment.bucket);
         b < space.buckets.size() && space.buckets[b].offset < end;
         ++b) {
      const Bucket& bucket = space.buckets[b];
      LOCKSTEP_ASSERT(!bucket.sharded || space.ranks == members_);
      const std::int64_t first = std::max(segment.offset, bucket.offset);
      const std::int64_t last = std::min(end, bucket.offset + bucket.elems);
      if (first < last) pieces_.push_back({member_of[i], first, last - first, bucket});
    }
  }
  communicator_.reserve_requests(int(std::max<std::size_t>(1, pieces_.size())));
  requests_.reserve(pieces_.size());
}

void MatrixExchange::gather() {
  for (const Piece& piece : pieces_)
    if (piece.bucket.sharded) start_to_member(piece);
  finish();
}

void MatrixExchange::scatter() {
  for (const Piece& piece : pieces_) start_from_member(piece);
  finish();
}

void MatrixExchange::warm_up() {
  const SentBytes sent = sent_;
  gather();
  scatter();
  sent_ = sent;
}

void MatrixExchange::set_owned(const Piece& piece) {
  for (int m = 0; m < members_; ++m) {
    const Bucket chunk = owned_chunk(space_, piece.bucket, m);
    const std::int64_t first = std::max(piece.offset, chunk.offset);
    const std::int64_t last = std::min(piece.offset + piece.elems, chunk.offset + chunk.elems);
    owned_[std::size_t(m)] = {first < last ? first - piece.offset : 0,
                              std::max<std::int64_t>(0, last - first)};
  }
  // What the member owns itself lies there.
  owned_[std::size_t(piece.member)] = {};
  std::ranges::fill(to_, CommBlock{});
  std::ranges::fill(from_, CommBlock{});
}

void MatrixExchange::start_to_member(const Piece& piece) {
  set_owned(piece);
  if (piece.member == member_)
    from_ = owned_;
  else
    to_[std::size_t(piece.member)] = owned_[std::size_t(member_)];
  count(piece.member, to_[std::size_t(piece.member)].elems);
  float* const values = gradients_ + piece.offset;
  requests_.push_back(communicator_.start_all_to_all(values, to_, values, from_));
}

void MatrixExchange::start_from_member(const Piece& piece) {
  float* const values = gradients_ + piece.offset;
  if (!piece.bucket.sharded) {
    std::ranges::fill(owned_, CommBlock{});
    owned_[std::size_t(piece.member)] = {0, piece.elems};
    if (piece.member == member_)
      for (int m = 0; m < members_; ++m) count(m, piece.elems);
    requests_.push_back(communicator_.start_all_gather(values, owned_));
    return;
  }
  set_owned(piece);
  if (piece.member == member_)
    to_ = owned_;
  else
    from_[std::size_t(piece.member)] = owned_[std::size_t(member_)];
  for (int m = 0; m < members_; ++m) count(m, to_[std::size_t(m)].elems);
  requests_.push_back(communicator_.start_all_to_all(values, to_, values, from_));
}

void MatrixExchange::finish() {
  for (CommRequestPtr& request : requests_) request->wait();
  requests_.clear();
}

void MatrixExchange::count(int member, std::int64_t elems) {
  if (member == member_) return;
  const std::uint64_t bytes = std::uint64_t(elems) * sizeof(float);
  const int per_host = communicator_.ranks_per_node();
  sent_.all += bytes;
  if (member / per_host != member_ / per_host) sent_.network += bytes;
}

}  // namespace lockstep
