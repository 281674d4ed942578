// SPDX-License-Identifier: Apache-2.0
#include "core/io/load_weights.h"

#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/io/safetensors.h"
#include "lockstep/error.h"

namespace lockstep::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parameter parameter(const std::string& name, const Shape& shape) {
  Parameter p;
  p.name = name;
  p.shape = shape;
  p.file_layout = {shape, {}, shape};
  return p;
}

/// A file of tensors whose elements are given as they are stored.
class WeightsFile {
 public:
  template <typename T>
  WeightsFile& add(const std::string& name,
                   ElementType type,
                   const std::vector<std::int64_t>& shape,
                   const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span<const T>(values));
    data_.emplace_back(bytes.begin(), bytes.end());
    names_.push_back({name, type, shape, {}});
    return *this;
  }
  std::string write() {
    for (std::size_t i = 0; i < names_.size(); ++i) names_[i].data = data_[i];
    write_safetensors(path_, names_);
    return path_;
  }
  ~WeightsFile() { std::filesystem::remove(path_); }

 private:
  std::string path_ = ::testing::TempDir() + "load_weights_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::vector<std::vector<std::byte>> data_;
  std::vector<TensorView> names_;
};

TEST(LoadWeights, HalfPrecisionAndDoublesAreConverted) {
  // 1, -2, the largest and the smallest binary16, both zeros' sign bit, 2^-14; bfloat16 1, -2, 3e38
  WeightsFile file;
  file.add<std::uint16_t>("h", ElementType::f16, {5}, {0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400});
  file.add<std::uint16_t>("b", ElementType::bf16, {3}, {0x3f80, 0xc000, 0x7f62});
  file.add<double>("d", ElementType::f64, {2}, {0.5, 1e-3});
  const auto tensors = load_weights(
      file.write(), {parameter("h", {5}), parameter("b", {3}), parameter("d", {2})}, {});
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_THAT(tensors[0].values, ElementsAre(1.0f, -2.0f, 65504.0f, 0x1p-24f, 0x1p-14f));
  EXPECT_THAT(tensors[1].values, ElementsAre(1.0f, -2.0f, std::ldexp(1.765625f, 127)));
  EXPECT_THAT(tensors[2].values, ElementsAre(0.5f, 1e-3f));
}

TEST(LoadWeights, InfinityAndNanOfHalfPrecisionStay) {
  WeightsFile file;
  file.add<std::uint16_t>("h", ElementType::f16, {2}, {0xfc00, 0x7e00});
  const auto values = load_weights(file.write(), {parameter("h", {2})}, {})[0].values;
  EXPECT_EQ(values[0], -INFINITY);
  EXPECT_TRUE(std::isnan(values[1]));
}

TEST(LoadWeights, EveryMismatchIsInOneError) {
  WeightsFile file;
  file.add<float>("fc.weight", ElementType::f32, {1, 2}, {1, 2});
  file.add<float>("stem.weight", ElementType::f32, {1}, {1});
  file.add<std::int64_t>("bn.weight", ElementType::i64, {1}, {1});
  file.add<std::int64_t>("bn.num_batches_tracked", ElementType::i64, {}, {7});
  const std::string path = file.write();
  const std::vector<Parameter> model{
      parameter("fc.weight", {3, 2}), parameter("fc.bias", {3}), parameter("bn.weight", {1})};
  try {
    load_weights(path, model, {});
    FAIL() << "expected a DataError";
  } catch (const DataError& error) {
    EXPECT_EQ(int(error.exit_code()), 1);
    EXPECT_THAT(error.what(), HasSubstr(path + ": 4 tensors do not fit the model"));
    EXPECT_THAT(error.what(), HasSubstr("fc.weight: expected [3, 2], got [1, 2]"));
    EXPECT_THAT(error.what(), HasSubstr("fc.bias: expected [3], got nothing"));
    EXPECT_THAT(error.what(), HasSubstr("bn.weight: expected F32, F64, F16 or BF16, got I64"));
    EXPECT_THAT(error.what(), HasSubstr("stem.weight: not in the model, got [1]"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("num_batches_tracked")));
    EXPECT_THAT(error.hint(), HasSubstr("`init_skip` '^bn\\.'"));  // the last one
  }
}

TEST(LoadWeights, SkippedNamesMayBeMissingUnknownOrOfAnotherShape) {
  WeightsFile file;
  file.add<float>("fc.weight", ElementType::f32, {1, 2}, {1, 2});
  file.add<float>("fc.extra", ElementType::f32, {1}, {1});
  file.add<float>("stem.weight", ElementType::f32, {1}, {5});
  const std::vector<Parameter> model{
      parameter("stem.weight", {1}), parameter("fc.weight", {3, 2}), parameter("fc.bias", {3})};
  const std::string path = file.write();
  const auto tensors = load_weights(path, model, NamePatterns("init-skip", {"^fc\\."}));
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].parameter.name, "stem.weight");
  EXPECT_THAT(tensors[0].values, ElementsAre(5.0f));
  EXPECT_THROW(load_weights(path, model, NamePatterns("init-skip", {"fc", "haed"})), ConfigError);
}

/// A gpt of one table and one bias, in the order of a model that declares the bias first.
std::vector<Parameter> small_gpt() {
  return {parameter("transformer.h.0.ln_1.bias", {2}), parameter("transformer.wte.weight", {2, 1})};
}

TEST(LoadWeights, NamesOfGptMayLackThePrefix) {
  for (const std::string prefix : {"", "transformer."}) {
    WeightsFile file;
    file.add<float>(prefix + "wte.weight", ElementType::f32, {2, 1}, {1, 2});
    file.add<float>(prefix + "h.0.ln_1.bias", ElementType::f32, {2}, {3, 4});
    const auto tensors = load_weights(file.write(), small_gpt(), {});
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_THAT(tensors[0].values, ElementsAre(3, 4));
    EXPECT_THAT(tensors[1].values, ElementsAre(1, 2));
    const NamePatterns skip("init-skip", {"^transformer\\.wte"});
    EXPECT_EQ(load_weights(file.write(), small_gpt(), skip).size(), 1u);
  }
}

TEST(LoadWeights, NamesWithAndWithoutThePrefixDoNotMix) {
  WeightsFile file;
  file.add<float>("transformer.wte.weight", ElementType::f32, {2, 1}, {1, 2});
  file.add<float>("h.0.ln_1.bias", ElementType::f32, {2}, {3, 4});
  try {
    load_weights(file.write(), small_gpt(), {});
    FAIL() << "expected a DataError";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("transformer.h.0.ln_1.bias: expected [2], got nothing"));
    EXPECT_THAT(error.what(), HasSubstr("\n  h.0.ln_1.bias: not in the model, got [2]"));
  }
}

TEST(LoadWeights, MasksOfGptAreIgnoredAndOtherUnknownNamesAreNot) {
  for (const std::string prefix : {"", "transformer."}) {
    WeightsFile file;
    file.add<float>(prefix + "wte.weight", ElementType::f32, {2, 1}, {1, 2});
    file.add<float>(prefix + "h.0.ln_1.bias", ElementType::f32, {2}, {3, 4});
    file.add<std::uint8_t>(
        prefix + "h.0.attn.bias", ElementType::boolean, {1, 1, 2, 2}, {1, 0, 1, 1});
    file.add<float>(prefix + "h.11.attn.masked_bias", ElementType::f32, {}, {-1e4f});
    EXPECT_EQ(load_weights(file.write(), small_gpt(), {}).size(), 2u);
    file.add<float>(prefix + "h.0.attn.c_attn.bias", ElementType::f32, {1}, {0});
    EXPECT_THROW(load_weights(file.write(), small_gpt(), {}), DataError);
  }
  WeightsFile other;
  other.add<float>("h.0.attn.bias", ElementType::f32, {1}, {1});
  EXPECT_THROW(load_weights(other.write(), {}, {}), DataError) << "a model that is no gpt";
}

TEST(LoadWeights, FrequenciesOfLlamaAreIgnoredAndItsTiedHeadMustEqualTheTable) {
  const std::vector<Parameter> model{parameter("model.embed_tokens.weight", {2, 1})};
  const auto load = [&](float head) {
    WeightsFile file;
    file.add<float>("model.embed_tokens.weight", ElementType::f32, {2, 1}, {1, 2});
    file.add<float>("model.layers.0.self_attn.rotary_emb.inv_freq", ElementType::f32, {1}, {1});
    file.add<float>("lm_head.weight", ElementType::f32, {2, 1}, {1, head});
    return load_weights(file.write(), model, {});
  };
  EXPECT_THAT(load(2)[0].values, ElementsAre(1, 2));
  EXPECT_THROW(load(3), DataError);
}

TEST(LoadWeights, TiedHeadMustEqualTheTable) {
  const auto load = [](const std::string& prefix,
                       const std::vector<std::int64_t>& shape,
                       const std::vector<float>& head,
                       const std::vector<Parameter>& model) {
    WeightsFile file;
    file.add<float>(prefix + "wte.weight", ElementType::f32, {2, 1}, {1, 2});
    file.add<float>(prefix + "h.0.ln_1.bias", ElementType::f32, {2}, {3, 4});
    file.add<float>("lm_head.weight", ElementType::f32, shape, head);
    return load_weights(file.write(), model, {});
  };
  std::vector<Parameter> untied = small_gpt();
  untied.push_back(parameter("lm_head.weight", {2, 1}));
  for (const std::string prefix : {"", "transformer."}) {
    EXPECT_EQ(load(prefix, {2, 1}, {1, 2}, small_gpt()).size(), 2u);
    EXPECT_THROW(load(prefix, {2, 1}, {1, 3}, small_gpt()), DataError);
    EXPECT_THROW(load(prefix, {1, 2}, {1, 2}, small_gpt()), DataError);
    EXPECT_THAT(load(prefix, {2, 1}, {1, 3}, untied)[2].values, ElementsAre(1, 3));
  }
}

TEST(LoadWeights, TheHintNamesTheHeadOfTheModel) {
  WeightsFile file;
  file.add<float>("x", ElementType::f32, {1}, {1});
  const std::string path = file.write();
  const auto hint = [&](const std::vector<Parameter>& model) {
    try {
      load_weights(path, model, {});
    } catch (const DataError& error) {
      return error.hint();
    }
    return std::string();
  };
  EXPECT_THAT(hint({parameter("conv1.weight", {1}), parameter("fc.bias", {3})}),
              HasSubstr("'^fc\\.'"));
  EXPECT_THAT(hint({parameter("classifier.0.weight", {1}), parameter("classifier.6.bias", {3})}),
              HasSubstr("'^classifier\\.6\\.'"));
  std::vector<Parameter> gpt = small_gpt();
  EXPECT_THAT(hint(gpt), HasSubstr("'^transformer\\.wte\\.'"));
  gpt.insert(gpt.begin(), parameter("lm_head.weight", {2, 1}));
  EXPECT_THAT(hint(gpt), HasSubstr("'^lm_head\\.'"));
}

TEST(LoadWeights, OtherFilesAreRefusedByName) {
  EXPECT_THROW(load_weights("/nowhere/x.safetensors", {}, {}), DataError);
}

}  // namespace
}  // namespace lockstep::io
