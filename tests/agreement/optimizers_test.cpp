// SPDX-License-Identifier: Apache-2.0
// Ten training steps under each optimizer against float64 runs of PyTorch's or of its formula, by
// tests/reference/make_optimizer_goldens.py.
#include <gtest/gtest.h>

#include "tests/agreement/golden_model.h"

namespace lockstep::test {
namespace {

struct OptimizerCase {
  std::string name;  ///< as in the script
  Optimizer optimizer;
};

/// The script has the same settings.
std::vector<OptimizerCase> optimizer_cases() {
  constexpr float kDecay = 5e-4f;
  return {{"adam", Adam{.lr = 0.001f, .eps = 1e-4f, .weight_decay = kDecay}},
          {"rmsprop", RmsProp{.lr = 1e-4f, .eps = 1e-2f, .momentum = 0.9f, .weight_decay = kDecay}},
          {"rmsprop_centered",
           RmsProp{.lr = 0.001f, .eps = 1e-2f, .centered = true, .weight_decay = kDecay}},
          {"lion", Lion{.lr = 1e-4f, .weight_decay = kDecay}},
          {"lars", Lars{.lr = 0.1f, .weight_decay = kDecay}},
          {"lamb", Lamb{.lr = 0.001f, .weight_decay = kDecay}},
          {"muon", Muon{.lr = 0.001f, .eps = 1e-4f, .weight_decay = kDecay}},
          {"normuon", NorMuon{.lr = 0.001f, .eps = 1e-4f, .weight_decay = kDecay}}};
}

std::vector<ModelCase> small_models() {
  std::vector<ModelCase> models;
  for (const ModelCase& model : model_cases())
    for (const char* name : {"mlp_mnist", "convnet", "gpt", "gpt_plain"})
      if (model.name == name) models.push_back(model);
  return models;
}

struct OptimizerRun {
  ModelCase model;
  OptimizerCase optimizer;
};

/// All but gpt under Lion: its keys' biases have gradients that are rounding, of which Lion would
/// follow the sign. gpt_plain has no biases.
std::vector<OptimizerRun> optimizer_runs() {
  std::vector<OptimizerRun> runs;
  for (const ModelCase& model : small_models())
    for (const OptimizerCase& optimizer : optimizer_cases())
      if (model.name != "gpt" || optimizer.name != "lion") runs.push_back({model, optimizer});
  return runs;
}

class AgreementOptimizers : public ::testing::TestWithParam<OptimizerRun> {};

TEST_P(AgreementOptimizers, TenStepsAsTheFormula) {
  const auto& [model_case, optimizer] = GetParam();
  Model model(model_case, optimizer.optimizer);
  GoldenModel golden("optimizers/" + model_case.name);
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(model.compute(step));
    model.update(step);
  }
  golden.expect(optimizer.name + ".loss", losses);
  golden.expect(optimizer.name + ".eval_logits", model.evaluate());
  for (int i = 0; i < int(model.parameters().size()); ++i) {
    const Parameter& p = model.parameters()[std::size_t(i)];
    if (p.kind == ParameterKind::trained)
      golden.expect_sketch(optimizer.name + ".param", p.name, model.value(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo,
                         AgreementOptimizers,
                         ::testing::ValuesIn(optimizer_runs()),
                         [](const auto& instance) {
                           return instance.param.model.name + "_" + instance.param.optimizer.name;
                         });

}  // namespace
}  // namespace lockstep::test
