// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/nn/trace.h"
#include "core/ops/losses/regression_losses.h"
#include "core/ops/losses/softmax_cross_entropy.h"
#include "launcher/settings/flags.h"
#include "launcher/settings/open_data.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

enum class Targets { classes, labels, numbers };

data::SampleSpec samples_with(Targets targets) {
  data::SampleSpec spec;
  spec.input = {Shape{4}, DType::f32};
  spec.target = targets == Targets::classes ? TensorType{Shape{}, DType::i32}
                                            : TensorType{Shape{3}, DType::f32};
  spec.classes = targets == Targets::classes ? 3 : 0;
  spec.multi_label = targets == Targets::labels;
  return spec;
}

/// The operator that a program with these flags and targets has for its loss.
std::shared_ptr<const Operator> loss_operator(const std::vector<std::string>& arguments,
                                              Targets targets) {
  const data::SampleSpec samples = samples_with(targets);
  const auto model = [](Builder& nn, Value x) { return nn.linear(x, {.out_features = 3}); };
  const Graph graph = trace(model, make_loss(parse_train_flags(arguments), samples), samples, {});
  for (const Node& node : graph.nodes())
    if (node.op->is_loss()) return node.op;
  return nullptr;
}

TEST(MakeLoss, AutoFollowsTheTargets) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--loss=auto"}}) {
    EXPECT_EQ(loss_operator(flags, Targets::classes)->kind(), OpKind::softmax_cross_entropy);
    EXPECT_EQ(loss_operator(flags, Targets::labels)->kind(), OpKind::binary_cross_entropy);
    EXPECT_EQ(loss_operator(flags, Targets::numbers)->kind(), OpKind::mean_squared_error);
  }
}

TEST(MakeLoss, NamedLosses) {
  for (const Targets targets : {Targets::labels, Targets::numbers}) {
    EXPECT_EQ(loss_operator({"--loss=mse"}, targets)->kind(), OpKind::mean_squared_error);
    EXPECT_EQ(loss_operator({"--loss=mae"}, targets)->kind(), OpKind::l1_loss);
    const auto huber = loss_operator({"--loss=huber", "--huber-delta=0.25"}, targets);
    EXPECT_EQ(op_cast<ops::HuberLoss>(*huber).delta(), 0.25f);
    EXPECT_EQ(op_cast<ops::HuberLoss>(*loss_operator({"--loss=huber"}, targets)).delta(), 1.0f);
  }
  EXPECT_EQ(loss_operator({"--loss=bce"}, Targets::labels)->kind(), OpKind::binary_cross_entropy);
  const auto smoothed =
      loss_operator({"--loss=cross-entropy", "--label-smoothing=0.5"}, Targets::classes);
  EXPECT_EQ(op_cast<ops::SoftmaxCrossEntropy>(*smoothed).label_smoothing(), 0.5f);
}

std::string refusal(const std::vector<std::string>& arguments, Targets targets) {
  try {
    loss_operator(arguments, targets);
  } catch (const ConfigError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

TEST(MakeLoss, TargetsThatALossDoesNotFit) {
  for (const std::string loss : {"mse", "mae", "huber", "bce"})
    EXPECT_THAT(
        refusal({"--loss=" + loss}, Targets::classes),
        AllOf(HasSubstr("--loss " + loss), HasSubstr("glyphs"), HasSubstr("got 3 classes")));
  EXPECT_THAT(refusal({"--loss=cross-entropy"}, Targets::labels),
              AllOf(HasSubstr("got 3 labels"), HasSubstr("--loss bce")));
  for (const std::string loss : {"cross-entropy", "bce"})
    EXPECT_THAT(
        refusal({"--loss=" + loss}, Targets::numbers),
        AllOf(HasSubstr("--loss " + loss), HasSubstr("got 3 numbers"), HasSubstr("--loss mse")));
  for (const Targets targets : {Targets::labels, Targets::numbers})
    EXPECT_THAT(refusal({"--label-smoothing=0.1"}, targets), HasSubstr("--label-smoothing"));
}

// A default that is named is the default: the checkpoints of a run without the flag continue.
TEST(MakeLoss, SettingsThatRanksCompareNameTheLossWhereItIsNotTheDefault) {
  const auto settings = [](const std::vector<std::string>& arguments, Targets targets) {
    return loss_settings(parse_train_flags(arguments), samples_with(targets));
  };
  const Fingerprint before{{"label-smoothing", "0"}};
  EXPECT_EQ(settings({}, Targets::numbers), before);
  EXPECT_EQ(settings({"--loss=mse"}, Targets::numbers), before);
  EXPECT_EQ(settings({"--loss=cross-entropy"}, Targets::classes), before);
  EXPECT_EQ(settings({"--loss=bce"}, Targets::labels), before);
  EXPECT_EQ(settings({"--loss=mae"}, Targets::numbers),
            (Fingerprint{{"label-smoothing", "0"}, {"loss", "mae"}}));
  EXPECT_EQ(settings({"--loss=huber", "--huber-delta=0.5"}, Targets::numbers),
            (Fingerprint{{"label-smoothing", "0"}, {"loss", "huber"}, {"huber-delta", "0.5"}}));
}

}  // namespace
}  // namespace lockstep
