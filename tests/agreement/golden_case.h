// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

#include "core/grad/differentiate.h"
#include "core/graph/gradient_builder.h"
#include "core/io/safetensors.h"
#include "tests/agreement/goldens_folder.h"
#include "tests/agreement/graph_runner.h"
#include "tests/support/test_backend.h"

namespace lockstep::test {

inline const io::SafetensorsReader& goldens() {
  static const io::SafetensorsReader reader(goldens_folder() + "/operators.safetensors");
  return reader;
}

/// PyTorch's order of dimensions to ours: [N, C, H, W] -> [N, H, W, C] (also of weights).
inline Shape stored_shape(const std::vector<std::int64_t>& s) {
  return s.size() == 4 ? Shape{s[0], s[2], s[3], s[1]} : Shape(std::span(s));
}

template <typename T>
std::vector<T> to_stored(const std::vector<std::int64_t>& s, const std::vector<T>& values) {
  if (s.size() != 4) return values;
  std::vector<T> result;
  for (std::int64_t n = 0; n < s[0]; ++n)
    for (std::int64_t h = 0; h < s[2]; ++h)
      for (std::int64_t w = 0; w < s[3]; ++w)
        for (std::int64_t c = 0; c < s[1]; ++c)
          result.push_back(values[std::size_t(((n * s[1] + c) * s[2] + h) * s[3] + w)]);
  return result;
}

/// One operator with inputs from the golden file. Inputs are parameters, so that each has a
/// gradient; kernels then also choose their packed copies.
class GoldenCase {
 public:
  explicit GoldenCase(std::string name)
      : name_(std::move(name)), backend_(testing::make_test_backend()) {}

  ValueId parameter(const std::string& tensor) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    Parameter p;
    p.name = tensor;
    p.shape = stored_shape(entry.shape);
    const ValueId id = graph_.add_parameter(p);
    values_[id] = to_stored(entry.shape, goldens().read<float>(entry.name));
    return id;
  }
  ValueId input(const std::string& tensor) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    const ValueId id = graph_.add_input(tensor, {stored_shape(entry.shape), DType::f32});
    values_[id] = to_stored(entry.shape, goldens().read<float>(entry.name));
    return id;
  }
  ValueId constant(const std::string& name, float value) {
    const ValueId id = graph_.add_input(name, {{1}, DType::f32});
    values_[id] = {value};
    return id;
  }
  ValueId labels() {
    labels_ = goldens().read<std::int32_t>(name_ + ".labels");
    const Shape shape = stored_shape(goldens().entry(name_ + ".labels").shape);
    labels_id_ = graph_.add_input("labels", {shape, DType::i32});
    return labels_id_;
  }

  template <typename Op, typename... Args>
  std::vector<ValueId> apply(std::vector<ValueId> inputs, Args&&... args) {
    return graph_.add_node(std::make_shared<Op>(std::forward<Args>(args)...),
                           std::move(inputs),
                           "layer",
                           SourceLoc::current());
  }
  /// Gradients with respect to the inputs of `output`'s producer.
  std::vector<ValueId> gradients(ValueId output, ValueId output_grad) {
    const std::vector<bool> all(graph_.values().size(), true);
    GradientBuilder builder(graph_, all);
    const Node node = graph_.nodes()[std::size_t(graph_.value(output).producer)];
    std::vector<ValueId> grads(node.outputs.size(), kNoValue);
    grads[0] = output_grad;
    return node.op->gradient(builder, node, grads);
  }

  void run() {
    runner_ = std::make_unique<GraphRunner>(graph_, *backend_);
    for (const auto& [id, values] : values_) runner_->set(id, std::span(values));
    if (labels_id_ != kNoValue) runner_->set(labels_id_, std::span<const std::int32_t>(labels_));
    runner_->run();
  }
  std::vector<float> get(ValueId id) const { return runner_->get(id); }

  /// |actual - golden| <= c 2^-24 sqrt(n) max|golden|: n roundings of partial sums that are no
  /// larger than the result, with random signs.
  void expect(const std::string& tensor, const std::vector<float>& actual, double n, double c = 4) {
    const io::TensorEntry& entry = goldens().entry(name_ + "." + tensor);
    const auto expected = to_stored(entry.shape, goldens().read<double>(entry.name));
    ASSERT_EQ(actual.size(), expected.size());
    double largest = 0;
    for (double value : expected) largest = std::max(largest, std::abs(value));
    const double tolerance = c * 0x1p-24 * std::sqrt(n) * largest;
    for (std::size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], tolerance) << name_ << "." << tensor << "[" << i << "]";
  }
  void expect(const std::string& tensor, ValueId id, double n, double c = 4) {
    ASSERT_NE(id, kNoValue) << name_ << ": no value for " << tensor;
    expect(tensor, get(id), n, c);
  }

 private:
  std::string name_;
  std::unique_ptr<Backend> backend_;
  Graph graph_;
  std::map<ValueId, std::vector<float>> values_;
  std::vector<std::int32_t> labels_;
  ValueId labels_id_ = kNoValue;
  std::unique_ptr<GraphRunner> runner_;
};

}  // namespace lockstep::test
