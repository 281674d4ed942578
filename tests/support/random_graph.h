// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/base/random.h"
#include "core/ops/activations/gelu.h"
#include "core/ops/activations/relu.h"
#include "core/ops/add.h"
#include "core/ops/cast.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/norms/layer_norm.h"
#include "core/ops/pooling/avg_pool2d.h"
#include "core/ops/pooling/max_pool2d.h"
#include "core/ops/reshape.h"
#include "core/ops/scale.h"

namespace lockstep::testing {

/// Programs of real operators that read each other at random: of random sizes, with results that
/// several read or nobody, views, results in place of their input, sums into the gradient space,
/// and, in half of them, a backward phase. A function of the seed and the number of nodes.
class RandomGraph {
 public:
  static Graph make(std::uint64_t seed, int nodes) { return RandomGraph(seed).grow(nodes); }

 private:
  explicit RandomGraph(std::uint64_t seed) : random_(seed, 1) {}

  Graph grow(int nodes) {
    const bool has_backward = chance(2), keeps_all = chance(2);
    batch_ = 8 << random_.below(3);
    add_input("features", {batch_, width()});
    if (chance(2)) add_input("image", {batch_, 8, 8, 8});
    for (int i = 0; i < nodes; ++i) {
      phase_ = has_backward && i >= nodes / 2 ? NodePhase::backward : NodePhase::forward;
      // Each input is read, whatever else.
      const ValueId x = i < int(values_.size()) && i < int(graph_.input_names().size())
                            ? values_[std::size_t(i)]
                            : pick();
      while (int(graph_.nodes().size()) == i) add_operator_on(x);
    }
    for (int i = 0; i < int(graph_.parameters().size()); ++i)
      if (!sums_[std::size_t(i)]) graph_.freeze(i);
    keep(keeps_all);
    return std::move(graph_);
  }

  bool chance(std::uint32_t one_in) { return random_.below(one_in) == 0; }
  std::int64_t width() { return 8 << random_.below(6); }
  const TensorType& type(ValueId v) const { return graph_.value(v).type; }
  bool is_read(ValueId v) const {
    for (const Node& node : graph_.nodes())
      for (ValueId input : node.inputs)
        if (input == v) return true;
    return false;
  }

  void add_input(const char* name, std::initializer_list<std::int64_t> dims) {
    values_.push_back(graph_.add_input(name, {Shape(dims), DType::f32}));
  }

  /// What nobody has read, or any value.
  ValueId pick() {
    std::vector<ValueId> unread;
    for (ValueId v : values_)
      if (!is_read(v)) unread.push_back(v);
    const auto& among = unread.empty() || chance(3) ? values_ : unread;
    return among[random_.below(std::uint32_t(among.size()))];
  }

  /// Another value that `fits`.
  template <typename Fits>
  std::optional<ValueId> pick_other(ValueId x, Fits fits) {
    std::vector<ValueId> among;
    for (ValueId v : values_)
      if (v != x && fits(v)) among.push_back(v);
    if (among.empty()) return {};
    return among[random_.below(std::uint32_t(among.size()))];
  }

  ValueId parameter(const Shape& shape, bool is_sum = false) {
    sums_.push_back(is_sum);
    Parameter added;
    added.name = "p" + std::to_string(sums_.size());
    added.shape = shape;
    return graph_.add_parameter(std::move(added));
  }

  void add(std::shared_ptr<const Operator> op, std::vector<ValueId> inputs) {
    const auto outputs = graph_.add_node(std::move(op),
                                         std::move(inputs),
                                         "node" + std::to_string(graph_.nodes().size()),
                                         SourceLoc::current(),
                                         phase_);
    for (ValueId v : outputs)
      if (is_float(type(v).dtype) && v == outputs[0]) values_.push_back(v);
  }

  /// One of the operators that take such an input; none where it finds no second input.
  void add_operator_on(ValueId x) {
    const Shape shape = type(x).shape;
    if (chance(3) || type(x).dtype == DType::bf16) return add_elementwise(x);
    if (shape.rank() == 4) return add_image_operator(x);
    switch (random_.below(6)) {
      case 0:
        return add(std::make_shared<ops::Reshape>(shape.rank() == 2 ? Shape{2, shape[1] / 2}
                                                                    : Shape{shape[1] * shape[2]}),
                   {x});
      case 1:
        return add_layer_norm(x);
      case 2:
        return sum_weight_gradient(x);
      case 3:
        return add(std::make_shared<ops::LinearBwdData>(), {x, parameter({shape[-1], width()})});
      default:
        return add(std::make_shared<ops::Linear>(false), {x, parameter({width(), shape[-1]})});
    }
  }

  void add_elementwise(ValueId x) {
    const auto other = pick_other(x, [&](ValueId v) { return type(v) == type(x); });
    switch (random_.below(6)) {
      case 0:
        return add(std::make_shared<ops::Relu>(), {x});
      case 1:
        return add(std::make_shared<ops::Scale>(0.5f), {x});
      case 2:
        return add(std::make_shared<ops::Gelu>(ops::GeluKind::tanh), {x});
      case 3:
        return add(
            std::make_shared<ops::Cast>(type(x).dtype == DType::f32 ? DType::bf16 : DType::f32),
            {x});
      case 4:
        if (other) add(std::make_shared<ops::ReluBwd>(), {x, *other});
        return;
      default:
        if (other) add(std::make_shared<ops::Add>(), {x, *other});
        return;
    }
  }

  void add_image_operator(ValueId x) {
    const Shape shape = type(x).shape;
    const bool small = shape[1] < 2;
    switch (random_.below(small ? 2 : 4)) {
      case 0:
        return add(std::make_shared<ops::Reshape>(Shape{shape[1] * shape[2] * shape[3]}), {x});
      case 1:
        return add(std::make_shared<ops::Conv2d>(ops::Conv2dAttrs{.padding_h = 1, .padding_w = 1}),
                   {x, parameter({8 << random_.below(3), 3, 3, shape[3]})});
      case 2:
        return add(std::make_shared<ops::MaxPool2d>(ops::Pool2dAttrs{}), {x});
      default:
        return add(std::make_shared<ops::AvgPool2d>(ops::Pool2dAttrs{}), {x});
    }
  }

  void add_layer_norm(ValueId x) {
    const auto other = pick_other(x, [&](ValueId v) { return type(v) == type(x); });
    std::vector<ValueId> inputs{x, parameter({type(x).shape[-1]})};
    if (other) inputs.push_back(*other);
    add(std::make_shared<ops::LayerNorm>(1e-5f, false, other.has_value()), std::move(inputs));
  }

  void sum_weight_gradient(ValueId x) {
    const auto dy = pick_other(x, [&](ValueId v) {
      const Shape &a = type(v).shape, &b = type(x).shape;
      return type(v).dtype == DType::f32 && a.rank() == b.rank() && a.rank() < 4 &&
             (a.rank() == 2 || a[1] == b[1]);
    });
    if (!dy) return;
    parameter({type(*dy).shape[-1], type(x).shape[-1]}, true);
    add(std::make_shared<ops::LinearBwdWeights>(false), {x, *dy});
    values_.pop_back();
    graph_.accumulate_into(graph_.nodes().back().outputs[0], int(sums_.size()) - 1);
  }

  /// Values that nobody has read become outputs of the program, all or the last one, and now and
  /// then one that was.
  void keep(bool all) {
    for (std::size_t i = values_.size(); i-- > graph_.input_names().size();) {
      const bool unread = !is_read(values_[i]);
      if (!unread && !chance(8)) continue;
      graph_.add_output("output" + std::to_string(i), values_[i]);
      if (unread && !all) return;
    }
  }

  RandomStream random_;
  Graph graph_;
  std::vector<ValueId> values_;  // that operators may read
  std::vector<bool> sums_;       // per parameter: something is summed into it
  std::int64_t batch_ = 8;
  NodePhase phase_ = NodePhase::forward;
};

}  // namespace lockstep::testing
