// SPDX-License-Identifier: Apache-2.0
// Whole models over ten training steps against float64 runs of PyTorch.
#include <gtest/gtest.h>

#include "core/io/load_weights.h"
#include "tests/agreement/golden_model.h"

namespace lockstep::test {
namespace {

void check_training(const ModelCase& test_case, const std::string& kind) {
  const Optimizer optimizer =
      kind == "sgd"
          ? Optimizer(Sgd{.lr = test_case.sgd_lr, .momentum = 0.9f, .weight_decay = 5e-4f})
          : Optimizer(
                AdamW{.lr = test_case.adamw_lr, .eps = test_case.adamw_eps, .weight_decay = 5e-4f});
  Model model(test_case, optimizer);
  GoldenModel golden(test_case.name);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(model.compute(step));
    if (step == 0) {
      golden.expect("logits", model.logits());
      for (int i = 0; i < int(model.parameters().size()); ++i)
        if (const Parameter& p = model.parameters()[std::size_t(i)];
            p.kind == ParameterKind::trained && !p.frozen)
          golden.expect_sketch("grad", p.name, model.gradient(i));
    }
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
  golden.expect_all_compared(kind == "sgd" ? "adamw." : "sgd.");
}

/// Weights that PyTorch wrote give PyTorch's logits: convolution, batch norm with its running
/// statistics, and a linear layer after flattened images. The tolerance is that of sums of
/// n = 576 terms, the longest there are.
TEST(AgreementWeights, PytorchsFileGivesItsLogits) {
  const std::string folder = goldens_folder() + "/init/";
  const auto golden =
      io::SafetensorsReader(folder + "convnet_logits.safetensors").read<double>("logits");
  Model model({"convnet", {.name = "convnet"}, {1, 12, 12}, 4, 0.1f, 0.1f, 1.0f}, Sgd{});
  model.set(io::load_weights(folder + "convnet.safetensors", model.parameters(), {}));
  const std::vector<float> logits = model.evaluate();
  ASSERT_EQ(logits.size(), golden.size());
  double largest = 0;
  for (double value : golden) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < golden.size(); ++i)
    EXPECT_NEAR(logits[i], golden[i], 8 * 0x1p-24 * std::sqrt(576.0) * largest) << i;
}

class AgreementModels : public ::testing::TestWithParam<std::tuple<ModelCase, const char*>> {};

TEST_P(AgreementModels, TenStepsAsPyTorch) {
  check_training(std::get<0>(GetParam()), std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Zoo,
                         AgreementModels,
                         ::testing::Combine(::testing::ValuesIn(model_cases()),
                                            ::testing::Values("sgd", "adamw")),
                         [](const auto& instance) {
                           return std::get<0>(instance.param).name + "_" +
                                  std::get<1>(instance.param);
                         });

}  // namespace
}  // namespace lockstep::test
