// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include "core/ops/attention.h"
#include "kernels/cpu/bound_kernel.h"
#include "kernels/cpu/dropout_stream.h"
#include "kernels/cpu/kernel_list.h"

namespace lockstep::cpu {
namespace {

AttentionShape shape_of(const ops::AttentionAttrs& attrs, const TensorType& qkv) {
  return {.samples = qkv.shape[0],
          .tokens = qkv.shape[1],
          .heads = attrs.heads,
          .kv_heads = attrs.key_heads(),
          .depth = attrs.depth_of(qkv),
          .causal = attrs.causal};
}

/// Elements of the parts of a workspace.
struct Sizes {
  explicit Sizes(const AttentionShape& s)
      : rows(s.tokens * s.depth),
        block(kAttentionBlock * s.depth),
        columns((s.tokens + kAttentionBlock - 1) / kAttentionBlock * s.depth * kAttentionRow),
        scores(kAttentionBlock * kAttentionRow) {}
  std::int64_t rows, block, columns, scores;
};

/// Cuts a workspace into parts, each on a cache line; without memory it only measures.
class Parts {
 public:
  explicit Parts(float* memory) : memory_(memory) {}
  float* take(std::int64_t elems) {
    float* const part = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += (elems + 15) / 16 * 16;
    return part;
  }
  std::size_t bytes() const { return std::size_t(taken_) * sizeof(float); }

 private:
  float* memory_;
  std::int64_t taken_ = 0;
};

template <typename T>
class AttentionKernel final : public BoundKernel {
 public:
  AttentionKernel(const ops::Attention& op, const KernelSpec& spec)
      : shape_(shape_of(op.attrs(), spec.inputs[0])),
        dropout_(op.attrs().dropout, spec.path),
        drops_(op.attrs().dropout > 0.0f) {}

  std::size_t workspace_bytes() const override {
    AttentionArgs<T> args;
    return cut(args, nullptr);
  }
  void run(const RunState& state) override {
    AttentionArgs<T> args{.shape = shape_,
                          .qkv = input<T>(0),
                          .y = output<T>(0),
                          .lse = output(1),
                          .drops = drops_,
                          .stream = dropout_.at(state)};
    cut(args, workspace<float>());
    attention_(args);
  }

 private:
  std::size_t cut(AttentionArgs<T>& args, float* memory) const {
    const Sizes sizes(shape_);
    Parts parts(memory);
    args.queries = parts.take(sizes.block);
    args.keys = parts.take(sizes.columns);
    args.values = parts.take(sizes.rows);
    args.scores = parts.take(sizes.scores);
    args.sums = parts.take(sizes.block);
    return parts.bytes();
  }

  decltype(&baseline::attention<T>) attention_ = LOCKSTEP_CHOOSE(attention<T>);
  AttentionShape shape_;
  KeyedDropout dropout_;
  bool drops_;
};

template <typename T>
class AttentionBwdKernel final : public BoundKernel {
 public:
  AttentionBwdKernel(const ops::AttentionBwd& op, const KernelSpec& spec)
      : shape_(shape_of(op.attrs(), spec.inputs[0])),
        dropout_(op.attrs().dropout, spec.path),
        drops_(op.attrs().dropout > 0.0f) {}

  std::size_t workspace_bytes() const override {
    AttentionBwdArgs<T> args;
    return cut(args, nullptr);
  }
  void run(const RunState& state) override {
    AttentionBwdArgs<T> args{.shape = shape_,
                             .qkv = input<T>(0),
                             .y = input<T>(1),
                             .dy = input<T>(2),
                             .lse = input(3),
                             .dqkv = output<T>(0),
                             .drops = drops_,
                             .stream = dropout_.at(state)};
    cut(args, workspace<float>());
    attention_bwd_(args);
  }

 private:
  std::size_t cut(AttentionBwdArgs<T>& args, float* memory) const {
    const Sizes sizes(shape_);
    Parts parts(memory);
    for (float** rows : {&args.queries, &args.keys, &args.gradients, &args.dq, &args.dk, &args.dv})
      *rows = parts.take(sizes.rows);
    for (float** columns : {&args.columns_k, &args.columns_v}) *columns = parts.take(sizes.columns);
    for (float** scores : {&args.scores, &args.dscores}) *scores = parts.take(sizes.scores);
    args.deltas = parts.take(shape_.tokens);
    return parts.bytes();
  }

  decltype(&baseline::attention_bwd<T>) attention_bwd_ = LOCKSTEP_CHOOSE(attention_bwd<T>);
  AttentionShape shape_;
  KeyedDropout dropout_;
  bool drops_;
};

}  // namespace

std::unique_ptr<Kernel> make_attention_kernel(const ops::Attention& op, const KernelSpec& spec) {
  return make_stored<AttentionKernel>(spec.inputs[0].dtype, op, spec);
}

std::unique_ptr<Kernel> make_attention_bwd_kernel(const ops::AttentionBwd& op,
                                                  const KernelSpec& spec) {
  return make_stored<AttentionBwdKernel>(spec.inputs[0].dtype, op, spec);
}

}  // namespace lockstep::cpu
