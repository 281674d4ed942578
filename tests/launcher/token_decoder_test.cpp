// SPDX-License-Identifier: Apache-2.0
#include "core/exec/token_decoder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

#include "core/exec/batch_predictor.h"
#include "core/nn/initialise.h"
#include "core/nn/trace.h"
#include "lockstep/weights.h"
#include "lockstep/zoo.h"
#include "tests/support/test_backend.h"

namespace lockstep {
namespace {

constexpr std::int64_t kContext = 24;
constexpr int kVocabulary = 50, kLayers = 3, kHeads = 4, kWidth = 32;

nn::ModelSpec gpt(bool bias) {
  return {.name = "gpt",
          .outputs = kVocabulary,
          .layers = kLayers,
          .heads = kHeads,
          .width = kWidth,
          .context = kContext,
          .bias = bias,
          .tied_head = bias};
}

nn::ModelSpec llama(int kv_heads) {
  nn::ModelSpec spec = gpt(true);
  spec.name = "llama";
  spec.kv_heads = kv_heads;
  return spec;
}

/// A small model with random weights in a file.
class Decoding : public ::testing::TestWithParam<nn::ModelSpec> {
 protected:
  Decoding()
      : backend_(testing::make_test_backend()),
        file_(std::filesystem::temp_directory_path() /
              fmt::format("lockstep-decoder-{}.safetensors", getpid())),
        model_(nn::make_model(GetParam())) {
    spec_.input = spec_.target = {{kContext}, DType::i32};
    spec_.classes = kVocabulary;
    std::vector<io::NamedTensor> tensors;
    const Graph graph = trace_prediction(model_, spec_, {});
    for (const Parameter& parameter : graph.parameters()) {
      std::vector<float> values = initial_values(parameter, 1);
      // As large as a trained model's, so that attention looks at some tokens more than at others.
      if (parameter.name.find("weight") != parameter.name.npos &&
          parameter.name.find("ln_") == parameter.name.npos &&
          parameter.name.find("norm") == parameter.name.npos)
        for (float& value : values) value *= 10;
      tensors.push_back({parameter, std::move(values)});
    }
    io::save_weights(file_.string(), tensors);
  }
  ~Decoding() override { std::filesystem::remove(file_); }

  std::unique_ptr<Backend> backend_;
  std::filesystem::path file_;
  ModelFunction model_;
  data::SampleSpec spec_;
};

TEST_P(Decoding, TokenByTokenSaysWhatTheWholeWindowDoes) {
  const auto decoder =
      TokenDecoder::make(*backend_, model_, spec_, Precision::fp32, file_.string());
  ASSERT_NE(decoder, nullptr);
  BatchPredictor whole(*backend_, model_, spec_, 1, Precision::fp32, file_.string());
  std::vector<std::int32_t> window(kContext, 0);
  for (std::int64_t i = 0; i < kContext; ++i) {
    const auto token = std::int32_t(i * 17 % kVocabulary);
    window[std::size_t(i)] = token;
    ASSERT_EQ(decoder->size(), i);
    const std::span<const float> row = decoder->next(token);
    const std::span<const float> expected =
        std::span(whole.run(window.data())).subspan(std::size_t(i) * kVocabulary, kVocabulary);
    ASSERT_EQ(row.size(), expected.size());
    // In each layer the two orders of attention's sums differ by as many roundings as there are
    // terms, positions and columns of a head, in a value that the layers after carry on.
    float most = 0;
    for (const float logit : expected) most = std::max(most, std::abs(logit));
    const float tolerance = 2 * kLayers * float(kContext + kWidth / kHeads) *
                            std::numeric_limits<float>::epsilon() * most;
    for (std::size_t v = 0; v < row.size(); ++v) EXPECT_NEAR(row[v], expected[v], tolerance) << i;
    EXPECT_EQ(std::ranges::max_element(row) - row.begin(),
              std::ranges::max_element(expected) - expected.begin());
  }
}

TEST_P(Decoding, IsOfFp32AndTokensAlone) {
  EXPECT_EQ(TokenDecoder::make(*backend_, model_, spec_, Precision::bf16, file_.string()), nullptr);
  const ModelFunction mixes = [](Builder& nn, Value x) {
    x = nn.embedding(x, {.vocabulary = kVocabulary, .width = 8, .positions = kContext});
    x = nn.attention(nn.linear(x, {.out_features = 24}), {.heads = 2, .causal = false});
    return nn.linear(x, {.out_features = kVocabulary});
  };
  EXPECT_EQ(TokenDecoder::make(*backend_, mixes, spec_, Precision::fp32, file_.string()), nullptr);
}

// What is turned is read by attention alone.
TEST_P(Decoding, IsNotOfTurnedValuesThatOthersRead) {
  const ModelFunction adds = [](Builder& nn, Value x) {
    x = nn.embedding(x, {.vocabulary = kVocabulary, .width = 8});
    const Value qkv = nn.rotary(x, x, x, {.heads = 2, .kv_heads = 2});
    const Value y = nn.linear(qkv, {.out_features = 8});
    return nn.linear(nn.add(y, nn.attention(qkv, {.heads = 2})), {.out_features = kVocabulary});
  };
  EXPECT_EQ(TokenDecoder::make(*backend_, adds, spec_, Precision::fp32, file_.string()), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         Decoding,
                         ::testing::Values(gpt(true), gpt(false), llama(4), llama(2)));

}  // namespace
}  // namespace lockstep
