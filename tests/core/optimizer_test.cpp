// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizer.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>

#include "core/optim/optimizer.h"
#include "core/optim/optimizer_hyper_parameter.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What validate() says of it, hint included; empty where it says nothing.
std::string complaint(const Optimizer& optimizer) {
  try {
    validate(optimizer);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return {};
}

TEST(Optimizers, AreMadeByTheirNames) {
  for (const std::string_view name : optimizer_names()) {
    SCOPED_TRACE(name);
    const Optimizer optimizer = make_optimizer(name);
    EXPECT_EQ(name_of(optimizer), name);
    EXPECT_EQ(complaint(optimizer), "") << "the defaults are valid";
    EXPECT_LE(state_arrays(optimizer), kMaxOptimizerState);
  }
  try {
    make_optimizer("adamww");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("`optimizer` 'adamww' is unknown, expected sgd, adamw"));
    EXPECT_EQ(error.hint(), "did you mean adamw?");
  }
}

TEST(Optimizers, HyperParametersLieInTheOptimizer) {
  for (const std::string_view name : optimizer_names()) {
    SCOPED_TRACE(name);
    Optimizer optimizer = make_optimizer(name);
    std::set<std::string_view> names;
    for (const OptimizerHyperParameter& h : hyper_parameters(optimizer)) {
      EXPECT_TRUE(names.insert(h.name).second) << h.name << " twice";
      EXPECT_FALSE(h.help.empty()) << h.name;
      if (h.name == "lr") *std::get<float*>(h.value) = 0.25f;
      if (h.name == "weight_decay") *std::get<float*>(h.value) = 0.125f;
    }
    EXPECT_EQ(learning_rate(optimizer), 0.25f);
    EXPECT_EQ(weight_decay(optimizer), 0.125f);
  }
}

// Each hyper-parameter that is a number is checked, by its name.
TEST(Optimizers, RefuseNumbersOutOfRange) {
  for (const std::string_view name : optimizer_names()) {
    Optimizer optimizer = make_optimizer(name);
    for (const OptimizerHyperParameter& h : hyper_parameters(optimizer)) {
      float* const* const number = std::get_if<float*>(&h.value);
      if (number == nullptr) continue;
      const float valid = **number;
      for (const float wrong : {-1.0f, std::numeric_limits<float>::infinity(), NAN}) {
        **number = wrong;
        EXPECT_THAT(complaint(optimizer),
                    HasSubstr(fmt::format("optimizer {}: `{}` must be ", name, h.name)));
      }
      **number = valid;
    }
  }
}

TEST(Optimizers, ErrorsNameValueRangeAndRemedy) {
  EXPECT_EQ(complaint(Sgd{.momentum = 1.0f}),
            "optimizer sgd: `momentum` must be in [0, 1), got 1; the default is 0");
  EXPECT_EQ(complaint(AdamW{.eps = 0.0f}),
            "optimizer adamw: `eps` must be finite and above 0, got 0; the default is 1e-08");
  EXPECT_THAT(complaint(Sgd{.nesterov = true}), HasSubstr("`nesterov` needs `momentum` above 0"));
}

// Checkpoints hold these texts, and ranks compare them.
TEST(Optimizers, TextsStayAsTheyAre) {
  EXPECT_EQ(to_string(Sgd{.momentum = 0.9f, .weight_decay = 5e-4f}),
            "sgd lr=0.1 momentum=0.9 weight_decay=0.0005");
  EXPECT_EQ(to_string(Sgd{.lr = 1, .momentum = 0.5f, .nesterov = true}),
            "sgd lr=1 momentum=0.5 nesterov weight_decay=0");
  EXPECT_EQ(to_string(AdamW{}), "adamw lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0.01");
  EXPECT_EQ(to_string(Adam{}), "adam lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0");
  EXPECT_EQ(to_string(RmsProp{.centered = true}),
            "rmsprop lr=0.01 alpha=0.99 eps=1e-08 momentum=0 centered weight_decay=0");
  EXPECT_EQ(to_string(Lion{}), "lion lr=0.0001 beta1=0.9 beta2=0.99 weight_decay=0");
}

TEST(Optimizers, StateHasPyTorchsNames) {
  EXPECT_THAT(state_names(Sgd{}), IsEmpty());
  EXPECT_THAT(state_names(Sgd{.momentum = 0.9f}), ElementsAre("momentum_buffer"));
  EXPECT_THAT(state_names(AdamW{}), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(state_names(Adam{}), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(state_names(RmsProp{}), ElementsAre("square_avg"));
  EXPECT_THAT(state_names(RmsProp{.momentum = 0.9f, .centered = true}),
              ElementsAre("square_avg", "grad_avg", "momentum_buffer"));
  EXPECT_THAT(state_names(Lion{}), ElementsAre("exp_avg"));
}

TEST(Optimizers, RunsGoOnFromTheStateOfTheSameArrays) {
  const std::string plain = to_string(Sgd{}), momentum = to_string(Sgd{.momentum = 0.9f});
  const std::string nesterov = to_string(Sgd{.lr = 2, .momentum = 0.5f, .nesterov = true});
  const std::string adamw = to_string(AdamW{});
  EXPECT_TRUE(have_same_state(plain, to_string(Sgd{.lr = 2, .weight_decay = 1e-5f})));
  EXPECT_TRUE(have_same_state(momentum, nesterov));
  EXPECT_TRUE(have_same_state(adamw, to_string(AdamW{.lr = 1e-5f, .eps = 1e-6f})));
  EXPECT_FALSE(have_same_state(plain, momentum));
  EXPECT_FALSE(have_same_state(nesterov, plain));
  EXPECT_FALSE(have_same_state(plain, adamw));
  EXPECT_FALSE(have_same_state(momentum, adamw));
  EXPECT_FALSE(have_same_state(to_string(Adam{}), adamw)) << "the arrays alone are the same";
  EXPECT_FALSE(have_same_state(to_string(RmsProp{}), to_string(RmsProp{.centered = true})));
  for (const char* unknown :
       {"", "absent", "adamax lr=1", "sgd lr", "sgd lr=", "sgd lr=1x", "sgd q=1", "sgd nesterov=1"})
    EXPECT_FALSE(have_same_state(unknown, plain)) << unknown;
}

TEST(Optimizers, ScalarsOfAStepAreThoseOfTheFormula) {
  const AdamW adamw{.beta1 = 0.5f, .beta2 = 0.75f};
  const StepScalars scalars = adamw.step_scalars(1);  // t = 2
  EXPECT_EQ(scalars.values[AdamW::kFirstCorrection], 0.75);
  EXPECT_DOUBLE_EQ(scalars.values[AdamW::kRootCorrection], 1 / std::sqrt(1 - 0.5625));
}

}  // namespace
}  // namespace lockstep
