// SPDX-License-Identifier: Apache-2.0
// The models' parameters against torchvision's: names, shapes and how they start.
#include "lockstep/zoo.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <span>

#include "core/nn/initialise.h"
#include "core/nn/trace.h"
#include "lockstep/error.h"
#include "tests/core/trace_helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

Graph imagenet_graph(const nn::ModelSpec& spec, std::int64_t size = 224) {
  return trace_classifier(
      nn::make_model(spec), {size, size, 3}, int(spec.outputs), 1, Mode::evaluation);
}

/// As make_goldens.py writes them, a line "NAME: D D ..." each, by their names.
std::vector<std::string> parameters_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Parameter& p : graph.parameters())
    if (p.kind != ParameterKind::metric)
      lines.push_back(fmt::format("{}: {}", p.name, fmt::join(p.file_layout.file.dims(), " ")));
  std::ranges::sort(lines);
  return lines;
}

std::vector<std::string> golden_parameters(const std::string& name) {
  std::ifstream file(LOCKSTEP_GOLDENS "/shapes/" + name + ".txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

TEST(Zoo, UnknownModelOffersTheNearest) {
  try {
    nn::make_model({.name = "resnet81"});
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("resnet81"));
    EXPECT_THAT(error.hint(), HasSubstr("resnet18"));
  }
}

TEST(Zoo, ImageNetModelsHaveTorchvisionsParameters) {
  const std::pair<std::string, std::string> models[] = {{"resnet18", "resnet18"},
                                                        {"resnet34", "resnet34"},
                                                        {"resnet50", "resnet50"},
                                                        {"resnet101", "resnet101"},
                                                        {"resnet152", "resnet152"},
                                                        {"vgg11", "vgg11_bn"},
                                                        {"vgg16", "vgg16_bn"},
                                                        {"mobilenet-v2", "mobilenet_v2"},
                                                        {"convnext-tiny", "convnext_tiny"},
                                                        {"vit-b16", "vit_b_16"}};
  for (const auto& [name, torchvision] : models) {
    const std::vector<std::string> golden = golden_parameters(torchvision);
    ASSERT_THAT(golden, Not(IsEmpty())) << "no golden file of " << torchvision;
    EXPECT_EQ(parameters_of(imagenet_graph({.name = name, .outputs = 1000})), golden) << name;
  }
}

// What the search for a micro-batch that fits relies on.
TEST(Zoo, AreTheSameProgramForEveryMicroBatch) {
  const auto expect_same = [](const nn::ModelSpec& spec, const data::SampleSpec& samples) {
    for (const Mode mode : {Mode::training, Mode::evaluation})
      for (const bool recompute : {false, true})
        for (const Precision precision : {Precision::fp32, Precision::bf16}) {
          BuilderSettings settings;
          settings.mode = mode;
          settings.micro_batch = 4;
          settings.precision = precision;
          settings.recompute = recompute;
          const ModelFunction model = nn::make_model(spec);
          const Graph four = trace(model, softmax_cross_entropy, samples, settings);
          for (const std::int64_t micro_batch : {1, 2, 12}) {
            settings.micro_batch = micro_batch;
            const std::optional<Graph> scaled = with_micro_batch(four, micro_batch);
            const Graph traced = trace(model, softmax_cross_entropy, samples, settings);
            ASSERT_TRUE(scaled);
            EXPECT_TRUE(equal_programs(*scaled, traced)) << spec.name;
            EXPECT_EQ(to_text(*scaled), to_text(traced)) << spec.name;
            EXPECT_FALSE(equal_programs(four, traced)) << spec.name;
          }
        }
  };
  for (const char* name : {"airbench94", "resnet20", "resnet50", "vgg11"}) {
    data::SampleSpec images;
    images.input = {{32, 32, 3}, DType::u8};
    images.target = {Shape{}, DType::i32};
    images.classes = 10;
    images.scale = {1, 1, 1};
    images.shift = {0, 0, 0};
    expect_same({.name = name, .outputs = 10, .stem = nn::Stem::cifar}, images);
  }
  data::SampleSpec tokens;
  tokens.input = tokens.target = {{8}, DType::i32};
  tokens.classes = 50;
  for (const char* name : {"gpt", "llama"})
    expect_same({.name = name, .outputs = 50, .layers = 2, .heads = 2, .width = 8, .context = 8},
                tokens);
}

TEST(Zoo, EveryModelTakesItsUsualImages) {
  for (const std::string_view name : nn::model_names()) {
    if (nn::reads_tokens(name)) continue;
    for (const nn::Stem stem : {nn::Stem::imagenet, nn::Stem::cifar}) {
      if (stem == nn::Stem::cifar && !nn::has_stem(name)) continue;
      const nn::ImageShape images = nn::usual_images(name, stem);
      const nn::ModelSpec spec{.name = std::string(name), .outputs = images.classes, .stem = stem};
      EXPECT_NO_THROW(trace_classifier(nn::make_model(spec),
                                       {images.side, images.side, images.channels},
                                       int(images.classes),
                                       1))
          << name;
    }
  }
}

TEST(Zoo, CifarStemChangesFirstConvolutionOrHeadAlone) {
  const auto lines_that_differ = [](const std::string& name, const std::string& golden) {
    const std::vector<std::string> imagenet = golden_parameters(golden);
    std::vector<std::string> result;
    std::ranges::copy_if(
        parameters_of(imagenet_graph({.name = name, .outputs = 1000, .stem = nn::Stem::cifar}, 32)),
        std::back_inserter(result),
        [&](const std::string& line) {
          return std::ranges::find(imagenet, line) == imagenet.end();
        });
    return result;
  };
  EXPECT_THAT(lines_that_differ("resnet50", "resnet50"), ElementsAre("conv1.weight: 64 3 3 3"));
  EXPECT_THAT(lines_that_differ("vgg11", "vgg11_bn"),
              ElementsAre("classifier.bias: 1000", "classifier.weight: 1000 512"));
}

TEST(Zoo, VggWantsImagesOf224OrTheCifarHead) {
  try {
    imagenet_graph({.name = "vgg11"}, 64);
    FAIL() << "expected a ShapeError";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("7x7"));
    EXPECT_THAT(error.hint(), HasSubstr("`stem` cifar"));
  }
}

TEST(Zoo, ParametersStartAlikeWithAnyNumberOfThreads) {
  constexpr std::int64_t kElems = (3 << 20) + 5;  // of several parts, of which the last is odd
  for (const auto kind : {Init::Kind::normal, Init::Kind::uniform}) {
    Parameter large, small;
    large.name = small.name = "w";
    large.init = small.init = {kind, 0.5f};
    large.shape = {kElems};
    small.shape = {7};
    const std::vector<float> alone = initial_values(large, 3), few = initial_values(small, 3);
    EXPECT_TRUE(std::ranges::equal(few, std::span(alone).first(7)));
    for (const int threads : {2, 5, 64}) EXPECT_EQ(initial_values(large, 3, threads), alone);
  }
}

// torchvision: kaiming_normal_ (fan out) for convolutions, normal(0, 0.01) for VGG's linear layers,
// PyTorch's uniform(+-1 / sqrt(in)) for a ResNet's; zero biases, except the ResNet's. The standard
// deviation of n draws is itself off by 1 / sqrt(2 n) (normal); five times that is allowed.
TEST(Zoo, ParametersStartAsTorchvisions) {
  const auto expect_deviation = [](const Graph& graph, const std::string& name, double expected) {
    const auto found = std::ranges::find(graph.parameters(), name, &Parameter::name);
    ASSERT_NE(found, graph.parameters().end()) << name;
    const std::vector<float> values = initial_values(*found, 1);
    double squares = 0;
    for (float value : values) squares += double(value) * value;
    const double n = double(values.size());
    EXPECT_NEAR(std::sqrt(squares / n), expected, 5 * expected / std::sqrt(2 * n)) << name;
  };
  const Graph vgg = imagenet_graph({.name = "vgg11", .stem = nn::Stem::cifar}, 32);
  expect_deviation(vgg, "features.0.weight", std::sqrt(2.0 / (64 * 9)));
  expect_deviation(vgg, "features.0.bias", 0);
  expect_deviation(vgg, "features.1.weight", 1);
  expect_deviation(vgg, "classifier.weight", 0.01);
  expect_deviation(vgg, "classifier.bias", 0);
  const Graph resnet = imagenet_graph({.name = "resnet50"});
  expect_deviation(resnet, "layer1.0.conv3.weight", std::sqrt(2.0 / 256));
  expect_deviation(resnet, "layer1.0.bn3.weight", 1);
  expect_deviation(resnet, "fc.weight", 1 / std::sqrt(3.0 * 2048));
  // kaiming_normal_ does not divide its fan out by the groups.
  const Graph mobilenet = imagenet_graph({.name = "mobilenet-v2"});
  expect_deviation(mobilenet, "features.5.conv.1.0.weight", std::sqrt(2.0 / (192 * 9)));
  expect_deviation(mobilenet, "features.18.0.weight", std::sqrt(2.0 / 1280));
  expect_deviation(mobilenet, "classifier.1.weight", 0.01);
  expect_deviation(mobilenet, "classifier.1.bias", 0);
  const Graph convnext = imagenet_graph({.name = "convnext-tiny"});
  expect_deviation(convnext, "features.3.0.block.0.weight", 0.02);
  expect_deviation(convnext, "features.3.0.block.0.bias", 0);
  expect_deviation(convnext, "features.3.0.block.3.weight", 0.02);
  expect_deviation(convnext, "features.3.0.layer_scale", 1e-6);
  expect_deviation(convnext, "classifier.2.weight", 0.02);
}

// The names and the count of Jordan's code, 1.97 million: its torch.nn.Sequential has the first
// convolution at 0, groups at 2 to 4, and the linear layer at 7.
TEST(Zoo, Airbench94HasItsOriginalsParameters) {
  const Graph graph = imagenet_graph({.name = "airbench94"}, 32);
  std::int64_t trained = 0;
  std::vector<std::string> frozen;
  for (const Parameter& p : graph.parameters()) {
    if (p.kind != ParameterKind::trained) continue;
    if (p.frozen)
      frozen.push_back(p.name);
    else
      trained += p.shape.elems();
  }
  constexpr std::int64_t kConvolutions = 9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256);
  EXPECT_EQ(trained, 24 + kConvolutions + 2 * 64 + 4 * 256 + 256 * 10);
  EXPECT_THAT(frozen,
              ElementsAre("0.weight",
                          "2.norm1.weight",
                          "2.norm2.weight",
                          "3.norm1.weight",
                          "3.norm2.weight",
                          "4.norm1.weight",
                          "4.norm2.weight"));
  EXPECT_THAT(parameters_of(graph),
              IsSupersetOf({"0.weight: 24 3 2 2",
                            "2.conv1.weight: 64 24 3 3",
                            "4.conv2.weight: 256 256 3 3",
                            "4.norm2.running_var: 256",
                            "7.weight: 10 256"}));
}

// The counts of Hugging Face's HuggingFaceTB/SmolLM-135M, SmolLM-360M and meta-llama/Llama-3.2-1B.
TEST(Zoo, LlamasHaveTheirOriginalsParameters) {
  const auto graph_of = [](const char* name, int vocabulary) {
    data::SampleSpec tokens;
    tokens.input = tokens.target = {{8}, DType::i32};
    tokens.classes = vocabulary;
    const nn::ModelSpec spec{.name = name, .outputs = vocabulary};
    return trace_prediction(nn::make_model(spec), tokens, {});
  };
  const auto count = [](const Graph& graph) {
    std::int64_t elems = 0;
    for (const Parameter& p : graph.parameters()) elems += p.shape.elems();
    return elems;
  };
  EXPECT_EQ(count(graph_of("smollm-135m", 49152)), 134'515'008);
  EXPECT_EQ(count(graph_of("smollm-360m", 49152)), 361'821'120);
  const Graph llama = graph_of("llama-3.2-1b", 128256);
  EXPECT_EQ(count(llama), 1'235'814'400);
  const std::vector<std::string> lines = parameters_of(llama);
  EXPECT_EQ(lines.size(), 1 + 16 * 9 + 1u);
  for (const char* line : {"model.embed_tokens.weight: 128256 2048",
                           "model.layers.0.input_layernorm.weight: 2048",
                           "model.layers.0.self_attn.q_proj.weight: 2048 2048",
                           "model.layers.0.self_attn.k_proj.weight: 512 2048",
                           "model.layers.0.self_attn.v_proj.weight: 512 2048",
                           "model.layers.0.self_attn.o_proj.weight: 2048 2048",
                           "model.layers.0.post_attention_layernorm.weight: 2048",
                           "model.layers.15.mlp.gate_proj.weight: 8192 2048",
                           "model.layers.15.mlp.up_proj.weight: 8192 2048",
                           "model.layers.15.mlp.down_proj.weight: 2048 8192",
                           "model.norm.weight: 2048"})
    EXPECT_THAT(lines, ::testing::Contains(line));
}

TEST(Zoo, MlpIsNumberedLikeSequential) {
  const Graph graph =
      trace_classifier(nn::make_model({.name = "mlp", .outputs = 3, .hidden = {10, 7}}), {4}, 3, 5);
  std::vector<std::string> names;
  for (const Parameter& p : graph.parameters())
    if (p.kind == ParameterKind::trained) names.push_back(p.name);
  EXPECT_THAT(
      names,
      ::testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"));
}

}  // namespace
}  // namespace lockstep
