// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/exec/communicator.h"
#include "core/graph/graph.h"
#include "core/plan/flat_space.h"

namespace lockstep {

/// Brings hidden matrices to the ranks that orthogonalize them, and what they become to those that
/// update with it: Note [Dealt matrices]. Collective; blocks until complete, but where the
/// communicator is in stream order.
class MatrixExchange {
 public:
  /// `communicator`: of the members, who share the matrices out; all ranks, where `space` has
  /// sharded buckets. `gradients`: the flat array, in which the directions lie. All must outlive
  /// it.
  MatrixExchange(Communicator& communicator,
                 const Graph& training,
                 const FlatSpace& space,
                 float* gradients);

  /// Of hidden_matrices(), by place, those that this member orthogonalizes.
  std::span<const int> own() const { return own_; }
  /// Each member has its matrices whole: the pieces in sharded buckets come from their owners.
  void gather();
  /// What the matrices have become is where it is updated with: at the owners of pieces in sharded
  /// buckets, at all members otherwise.
  void scatter();
  /// Connects members for it, before step 1: gradients hold nothing yet. Not counted.
  void warm_up();

  /// What this rank has sent since construction.
  const SentBytes& sent() const { return sent_; }
  /// What was asked for since it was `sent` was not done.
  void undo(const SentBytes& sent) { sent_ = sent; }

 private:
  /// What a bucket has of a matrix.
  struct Piece {
    int member = 0;  ///< who orthogonalizes it
    std::int64_t offset = 0, elems = 0;
    Bucket bucket = {};
  };
  /// owned_[member]: what each member owns of a piece of a sharded bucket, from the piece's offset.
  /// Nothing for the one who orthogonalizes it.
  void set_owned(const Piece& piece);
  void start_to_member(const Piece& piece);
  void start_from_member(const Piece& piece);
  void finish();
  void count(int member, std::int64_t elems);

  Communicator& communicator_;
  const FlatSpace& space_;
  float* gradients_;
  int member_, members_;
  std::vector<int> own_;
  std::vector<Piece> pieces_;
  std::vector<CommBlock> owned_, to_, from_;  // [members]
  std::vector<CommRequestPtr> requests_;
  SentBytes sent_;
};

}  // namespace lockstep
