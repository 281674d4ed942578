// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

#include "core/exec/batch_predictor.h"
#include "core/io/folder.h"
#include "core/nn/builder.h"
#include "core/nn/trace.h"
#include "launcher/onnx/onnx_model.h"
#include "lockstep/error.h"
#include "lockstep/job.h"
#include "lockstep/weights.h"
#include "lockstep/zoo.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 3;

struct Case {
  std::string name;
  ModelFunction model;
  data::Preprocessing record;
};

data::Preprocessing images(std::int64_t side, std::int64_t channels) {
  data::Preprocessing record;
  record.samples.input = {{side, side, channels}, DType::u8};
  record.samples.target = {{}, DType::i32};
  record.samples.classes = 10;
  for (std::int64_t c = 0; c < channels; ++c) {
    record.samples.scale.push_back(1 / (50.0f + float(c)));
    record.samples.shift.push_back(-2.0f + 0.25f * float(c));
  }
  for (int i = 0; i < 10; ++i) record.class_names.push_back(fmt::format("class \"{}\"", i));
  return record;
}

data::Preprocessing tokens(std::int64_t context) {
  data::Preprocessing record;
  record.task = data::Task::next_token;
  record.samples.input = record.samples.target = {{context}, DType::i32};
  record.samples.classes = 50;
  return record;
}

data::Preprocessing table() {
  data::Preprocessing record;
  record.task = data::Task::regression;
  record.samples.input = {{5}, DType::f32};
  record.samples.target = {{2}, DType::f32};
  record.samples.embedded = {{1, 4}, {4, 7}};
  return record;
}

/// What no model of the zoo has.
Value other_layers(Builder& nn, Value x) {
  const Value a = nn.conv2d(x, {.out_channels = 12, .kernel = 3, .padding = 1});
  const Value b = nn.conv2d(a, {.out_channels = 12, .kernel = 3, .padding = 1, .groups = 4});
  x = nn.layer_norm(nn.add(nn.scale(a, 0.5f), b));
  x = nn.avg_pool2d(nn.gelu(x), {.kernel = 3, .stride = 2, .padding = 1});
  return nn.linear(nn.dropout(nn.relu(nn.flatten(x)), 0.5f), {.out_features = 10});
}

std::vector<Case> cases() {
  const nn::ModelSpec gpt{
      .name = "gpt", .outputs = 50, .layers = 2, .heads = 2, .width = 32, .context = 24};
  nn::ModelSpec other = gpt;
  other.bias = other.tied_head = false;
  other.gelu = ops::GeluKind::erf;
  nn::ModelSpec llama = gpt, grouped = gpt;
  llama.name = grouped.name = "llama";
  grouped.kv_heads = 1;
  grouped.tied_head = false;
  grouped.rotary = {.theta = 500000, .factor = 32, .original_context = 60};
  return {
      {"mlp", nn::make_model({.name = "mlp", .hidden = {16, 8}}), images(8, 3)},
      {"mlp_of_categories", nn::make_model({.name = "mlp", .outputs = 2, .hidden = {16}}), table()},
      {"convnet", nn::make_model({.name = "convnet"}), images(28, 1)},
      {"airbench94", nn::make_model({.name = "airbench94"}), images(32, 3)},
      {"resnet20", nn::make_model({.name = "resnet20"}), images(32, 3)},
      {"resnet18", nn::make_model({.name = "resnet18"}), images(65, 3)},
      {"resnet50", nn::make_model({.name = "resnet50"}), images(64, 3)},
      {"vgg11", nn::make_model({.name = "vgg11", .stem = nn::Stem::cifar}), images(32, 3)},
      {"mobilenet_v2", nn::make_model({.name = "mobilenet-v2"}), images(64, 3)},
      {"convnext_tiny",
       nn::make_model({.name = "convnext-tiny", .stem = nn::Stem::cifar}),
       images(32, 3)},
      {"vit_ti16", nn::make_model({.name = "vit-ti16", .stem = nn::Stem::cifar}), images(16, 3)},
      {"other_layers", other_layers, images(12, 3)},
      {"gpt", nn::make_model(gpt), tokens(24)},
      {"gpt_without_biases", nn::make_model(other), tokens(24)},
      {"llama", nn::make_model(llama), tokens(24)},
      {"llama_of_groups", nn::make_model(grouped), tokens(24)}};
}

/// Values that make every parameter count: none is 0 or 1, and no variance is negative.
std::vector<io::NamedTensor> random_weights(const Graph& graph) {
  std::vector<io::NamedTensor> tensors;
  std::mt19937 random(7);
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.kind == ParameterKind::metric) continue;
    const std::int64_t elems = parameter.shape.elems();
    const double fan_in = parameter.shape.rank() > 1 ? double(elems / parameter.shape[0]) : 1;
    std::uniform_real_distribution<float> weight(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(elems));
    for (float& value : values) {
      value = weight(random);
      if (parameter.shape.rank() > 1)
        value *= float(std::sqrt(3 / fan_in));
      else if (parameter.name.ends_with("running_var") || parameter.name.ends_with("weight"))
        value = 1 + 0.25f * value;
      else
        value *= 0.1f;
    }
    tensors.push_back({parameter, std::move(values)});
  }
  return tensors;
}

std::vector<std::byte> random_samples(const data::SampleSpec& spec) {
  std::mt19937 random(11);
  const std::int64_t elems = spec.input.elems() * kSamples;
  std::vector<std::byte> bytes(std::size_t(elems) * size_in_bytes(spec.input.dtype));
  for (std::int64_t i = 0; i < elems; ++i) {
    if (spec.input.dtype == DType::u8) {
      bytes[std::size_t(i)] = std::byte(random() % 256);
    } else if (spec.input.dtype == DType::i32) {
      reinterpret_cast<std::int32_t*>(bytes.data())[i] =
          std::int32_t(random() % unsigned(spec.classes));
    } else {
      float value = float(random() % 2000) / 1000 - 1;
      for (const data::EmbeddedColumn& column : spec.embedded)
        if (i % spec.input.elems() == column.feature)
          value = float(random() % unsigned(column.categories));
      reinterpret_cast<float*>(bytes.data())[i] = value;
    }
  }
  return bytes;
}

void write(const fs::path& file, const void* data, std::size_t bytes) {
  std::ofstream(file, std::ios::binary)
      .write(static_cast<const char*>(data), std::streamsize(bytes));
}

class OnnxTest : public ::testing::Test {
 protected:
  OnnxTest() : folder_(fs::temp_directory_path() / fmt::format("lockstep-onnx-{}", getpid())) {
    fs::create_directories(folder_);
    job_.open_device("cpu");
  }
  ~OnnxTest() override { fs::remove_all(folder_); }

  /// Weights, samples, what the model says of them, and the model as an ONNX file, all in a folder.
  fs::path make(const Case& which, std::uint64_t max_bytes_inside = onnx::kMaxBytesInside) {
    const fs::path folder = folder_ / which.name;
    fs::create_directories(folder);
    const ModelFunction& model = which.model;
    const Graph graph = trace_prediction(model, which.record.samples, {.fuse = false});
    const std::string weights = (folder / "weights.safetensors").string();
    io::save_weights(weights, random_weights(graph));
    const std::vector<std::byte> samples = random_samples(which.record.samples);
    BatchPredictor predictor(
        job_.backend(), model, which.record.samples, kSamples, Precision::fp32, weights);
    const std::vector<float>& said = predictor.run(samples.data());
    write(folder / "samples", samples.data(), samples.size());
    write(folder / "said", said.data(), said.size() * sizeof(float));
    onnx::write_model(folder / "model.onnx", model, which.record, weights, false, max_bytes_inside);
    return folder;
  }

  fs::path folder_;
  Job job_{0, nullptr};
};

TEST_F(OnnxTest, RuntimeSaysWhatTheModelSays) {
  const char* python = std::getenv("ONNXRUNTIME_PYTHON");
  if (python == nullptr || *python == '\0')
    GTEST_SKIP() << "ONNXRUNTIME_PYTHON names no Python with the packages onnx and onnxruntime";
  std::string command = fmt::format("'{}' -B '{}'", python, LOCKSTEP_COMPARE_ONNX);
  for (const Case& which : cases()) command += fmt::format(" '{}'", make(which).string());
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(OnnxTest, ManyWeightsLieInAFileOfTheirOwn) {
  const Case mlp = cases()[0];
  const fs::path inside = make(mlp), apart = make({"apart", mlp.model, mlp.record}, 100);
  EXPECT_FALSE(fs::exists(inside / "model.onnx.data"));
  const auto weights = fs::file_size(apart / "model.onnx.data");
  EXPECT_NEAR(double(fs::file_size(inside / "model.onnx")),
              double(fs::file_size(apart / "model.onnx") + weights),
              1000);
  if (const char* python = std::getenv("ONNXRUNTIME_PYTHON");
      python != nullptr && *python != '\0') {
    const std::string command =
        fmt::format("'{}' -B '{}' '{}'", python, LOCKSTEP_COMPARE_ONNX, apart.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

TEST_F(OnnxTest, WhatIsThereStays) {
  const Case mlp = cases()[0];
  const fs::path folder = make(mlp);
  const auto bytes = fs::file_size(folder / "model.onnx");
  const auto write_again = [&](bool force) {
    return onnx::write_model(folder / "model.onnx",
                             nn::make_model({.name = "mlp", .hidden = {16, 8}}),
                             mlp.record,
                             (folder / "weights.safetensors").string(),
                             force);
  };
  EXPECT_THROW(write_again(false), EnvironmentError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 4) << "something is left over";
  EXPECT_EQ(fs::file_size(folder / "model.onnx"), bytes);
  EXPECT_EQ(write_again(true).input, "x: uint8 [batch, 3, 8, 8]");
}

TEST_F(OnnxTest, LayersWithoutACounterpartAreNamed) {
  const Case mlp = cases()[0];
  const ModelFunction model = [](Builder& nn, Value x) {
    return nn.linear(nn.gelu(nn.flatten(x)), {.out_features = 10, .name = "head"});
  };
  const Graph graph = trace_prediction(model, mlp.record.samples, {.fuse = false});
  const std::string weights = (folder_ / "weights.safetensors").string();
  io::save_weights(weights, random_weights(graph));
  EXPECT_NO_THROW(onnx::write_model(folder_ / "a.onnx", model, mlp.record, weights, false));
  const ModelFunction other = [](Builder& nn, Value x) {
    // The batch norm's channels would be those of a flattened image, whose order differs.
    return nn.linear(nn.batch_norm(nn.flatten(x)), {.out_features = 10});
  };
  const Graph graph_of_other = trace_prediction(other, mlp.record.samples, {.fuse = false});
  io::save_weights(weights, random_weights(graph_of_other));
  try {
    onnx::write_model(folder_ / "b.onnx", other, mlp.record, weights, false);
    ADD_FAILURE() << "written";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("batch_norm"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(fs::exists(folder_ / "b.onnx"));
}

}  // namespace
}  // namespace lockstep
