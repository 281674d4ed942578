// SPDX-License-Identifier: Apache-2.0
// Ten steps of SGD with clipped gradients against float64 runs of PyTorch's clipping or of its
// formula, by tests/reference/make_clipping_goldens.py.
#include <gtest/gtest.h>

#include "tests/agreement/golden_model.h"

namespace lockstep::test {
namespace {

/// The script has the same settings.
struct ClippingCase {
  std::string model;
  float lr, value, agc;
};
const ClippingCase kCases[] = {{"mlp_mnist", 0.1f, 0.02f, 0.15f},
                               {"convnet", 0.003f, 0.1f, 0.02f},
                               {"gpt", 0.1f, 0.01f, 0.03f}};

ModelCase model_of(const ClippingCase& c) {
  for (const ModelCase& model : model_cases())
    if (model.name == c.model) return model;
  throw InternalError("no model " + c.model);
}

class AgreementClipping
    : public ::testing::TestWithParam<std::tuple<ClippingCase, std::string_view>> {};

TEST_P(AgreementClipping, TenStepsAsTheFormula) {
  const auto& [c, name] = GetParam();
  const std::string kind(name);
  const ClipRules clip = kind == "value" ? ClipRules{.value = c.value} : ClipRules{.agc = c.agc};
  Model model(model_of(c), Sgd{.lr = c.lr, .momentum = 0.9f, .weight_decay = 5e-4f}, clip);
  GoldenModel golden("clipping/" + c.model);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(model.compute(step));
    model.update(step);
  }
  golden.expect(kind + ".loss", losses);
  golden.expect(kind + ".eval_logits", model.evaluate());
  for (int i = 0; i < int(model.parameters().size()); ++i) {
    const Parameter& p = model.parameters()[std::size_t(i)];
    if (p.kind == ParameterKind::trained)
      golden.expect_sketch(kind + ".param", p.name, model.value(i));
    if (p.kind == ParameterKind::running_statistic)
      golden.expect_sketch(kind + ".stat", p.name, model.value(i));
  }
  golden.expect_all_compared(kind == "value" ? "agc." : "value.");
}

INSTANTIATE_TEST_SUITE_P(Zoo,
                         AgreementClipping,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values("value", "agc")),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).model + "_" +
                                  std::string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace lockstep::test
