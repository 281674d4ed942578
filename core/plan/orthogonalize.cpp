// SPDX-License-Identifier: Apache-2.0
#include "core/plan/orthogonalize.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/ops/add.h"
#include "core/ops/matmul.h"
#include "core/ops/scale.h"
#include "core/plan/hidden_matrices.h"

namespace lockstep {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

/// Appends the iterations of one matrix.
class Iterations {
 public:
  Iterations(Graph& graph, int parameter)
      : graph_(graph),
        parameter_(parameter),
        path_(graph.parameters()[std::size_t(parameter)].name),
        value_(graph.parameter_value(parameter)) {
    const Shape& shape = graph.value(value_).type.shape;
    is_tall_ = shape[0] > shape[1];
    scale_ = kUpdateScale * std::sqrt(float(std::max(shape[0], shape[1])));
  }

  void append() {
    for (int i = 0; i + 1 < kIterations; ++i) {
      const ValueId polynomial = append_polynomial();
      value_ = append_product(polynomial, {.beta = kA}, value_);
    }
    // The last sum is an operator that may write into the flat space.
    const ValueId polynomial = append_polynomial();
    const ValueId product = append_product(polynomial, {.alpha = scale_}, kNoValue);
    const ValueId rest = node(std::make_shared<ops::Scale>(kA * scale_), {value_});
    graph_.accumulate_into(node(std::make_shared<ops::Add>(), {rest, product}), parameter_);
  }

 private:
  ValueId node(std::shared_ptr<const Operator> op, std::vector<ValueId> inputs) {
    return graph_.add_node(std::move(op), std::move(inputs), path_, {})[0];
  }
  ValueId matmul(ops::Matmul::Attrs attrs, std::vector<ValueId> inputs) {
    return node(std::make_shared<ops::Matmul>(attrs), std::move(inputs));
  }
  /// b A + c A A.
  ValueId append_polynomial() {
    const ValueId gram =
        matmul({.transpose_a = is_tall_, .transpose_b = !is_tall_}, {value_, value_});
    return matmul({.alpha = kC, .beta = kB}, {gram, gram, gram});
  }
  /// The polynomial times X, from the side of its extents.
  ValueId append_product(ValueId polynomial, ops::Matmul::Attrs attrs, ValueId summand) {
    std::vector<ValueId> inputs{polynomial, value_};
    if (is_tall_) std::swap(inputs[0], inputs[1]);
    if (summand != kNoValue) inputs.push_back(summand);
    return matmul(attrs, std::move(inputs));
  }

  Graph& graph_;
  int parameter_;
  std::string path_;
  ValueId value_;
  bool is_tall_;
  float scale_;
};

}  // namespace

std::optional<Graph> orthogonalization(const Graph& training) {
  const std::vector<int> matrices = hidden_matrices(training);
  if (matrices.empty()) return std::nullopt;
  Graph graph;
  for (int i = 0; i < int(training.parameters().size()); ++i) {
    Parameter parameter = training.parameters()[std::size_t(i)];
    if (std::ranges::binary_search(matrices, i)) parameter.shape = as_matrix(parameter.shape);
    graph.add_parameter(std::move(parameter));
  }
  for (const int matrix : matrices) Iterations(graph, matrix).append();
  verify(graph);
  return graph;
}

}  // namespace lockstep
