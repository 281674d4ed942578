// SPDX-License-Identifier: Apache-2.0
// Weights in folders and shards, and names that wrappers have changed.
#include "core/io/open_weights.h"

#include <gmock/gmock.h>

#include "core/io/load_weights.h"
#include "core/io/torch/torch_writer.h"
#include "lockstep/error.h"
#include "tests/io/scratch_folder.h"

namespace lockstep::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parameter scalar(const std::string& name) {
  Parameter p;
  p.name = name;
  p.shape = {1};
  p.file_layout = {p.shape, {}, p.shape};
  return p;
}

/// A file of tensors of one element each.
void write_scalars(const std::string& path,
                   const std::vector<std::pair<std::string, float>>& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, value] : tensors)
    views.push_back({name, ElementType::f32, {1}, std::as_bytes(std::span(&value, 1))});
  path.ends_with(".bin") ? torch::write_state_dict(path, views) : write_safetensors(path, views);
}

std::string why_not(const std::string& path, const std::vector<Parameter>& model) {
  try {
    load_weights(path, model, {});
    return {};
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(OpenWeights, ShardsAreOneFile) {
  for (const std::string name : {"model.safetensors", "pytorch_model.bin"}) {
    const ScratchFolder folder;
    const std::string ending = name.substr(name.find('.'));
    write_scalars(folder.file("1" + ending), {{"a", 1}, {"b", 2}});
    write_scalars(folder.file("2" + ending), {{"c", 3}, {"not in the index", 4}});
    folder.write(name + ".index.json",
                 R"({"metadata":{"total_size":12},"weight_map":{"a":"1)" + ending + R"(","b":"1)" +
                     ending + R"(","c":"2)" + ending + "\"}}");
    const std::vector<Parameter> model{scalar("c"), scalar("a"), scalar("b")};
    for (const std::string& path : {folder.path(), folder.file(name + ".index.json")}) {
      const auto tensors = load_weights(path, model, {});
      ASSERT_EQ(tensors.size(), 3u);
      EXPECT_THAT(tensors[0].values, ElementsAre(3));
      EXPECT_THAT(tensors[2].values, ElementsAre(2));
    }
  }
}

TEST(OpenWeights, ShardsStayInTheirFolder) {
  const ScratchFolder folder;
  write_scalars(folder.file("a.safetensors"), {{"a", 1}});
  const std::string outside = folder.file("a.safetensors");
  std::filesystem::create_directory(folder.file("inner"));
  const auto with_index = [&](const std::string& json) {
    return why_not(folder.write("inner/model.safetensors.index.json", json), {scalar("a")});
  };
  const auto with_shard = [&](const std::string& shard) {
    return with_index(R"({"weight_map":{"a":")" + shard + "\"}}");
  };
  EXPECT_THAT(with_shard("../a.safetensors"), HasSubstr("outside of the index's folder"));
  EXPECT_THAT(with_shard(outside), HasSubstr("outside of the index's folder"));
  EXPECT_THAT(with_shard("x/../../a.safetensors"), HasSubstr("outside of the index's folder"));
  EXPECT_THAT(with_shard(""), HasSubstr("outside of the index's folder"));
  EXPECT_THAT(with_shard("a\\u0000b"), HasSubstr("outside of the index's folder"));
  EXPECT_THAT(with_shard("none.safetensors"), HasSubstr("none.safetensors"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":1}})"), HasSubstr("the shard of a is not a string"));
  EXPECT_THAT(with_index(R"({"weight_map":[]})"), HasSubstr("weight_map"));
  EXPECT_THAT(with_index("{"), HasSubstr("not valid JSON"));
  write_scalars(folder.file("inner/a.safetensors"), {{"a", 1}});
  EXPECT_EQ(with_shard("a.safetensors"), "");
  EXPECT_THAT(with_index(R"({"weight_map":{"b":"a.safetensors"}})"), HasSubstr("b is not in"));
}

TEST(OpenWeights, FolderHasWeightsUnderTheUsualNames) {
  const ScratchFolder folder;
  EXPECT_THAT(why_not(folder.path(), {scalar("a")}), HasSubstr("pytorch_model.bin"));
  write_scalars(folder.file("pytorch_model.bin"), {{"a", 1}});
  EXPECT_THAT(load_weights(folder.path(), {scalar("a")}, {})[0].values, ElementsAre(1));
  write_scalars(folder.file("model.safetensors"), {{"a", 2}});
  EXPECT_THAT(load_weights(folder.path(), {scalar("a")}, {})[0].values, ElementsAre(2));
}

TEST(OpenWeights, PrefixesOfWrappersAreStrippedInAnyOrder) {
  const ScratchFolder folder;
  const std::string path = folder.file("a.safetensors");
  for (const std::string prefix :
       {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.module."}) {
    write_scalars(path, {{prefix + "fc.weight", 1}, {prefix + "fc.bias", 2}});
    EXPECT_EQ(load_weights(path, {scalar("fc.weight"), scalar("fc.bias")}, {}).size(), 2u);
    EXPECT_EQ(why_not(path, {scalar(prefix + "fc.weight"), scalar(prefix + "fc.bias")}), "")
        << "a model whose own names begin so";
  }
  write_scalars(path, {{"module.a", 1}, {"n_averaged", 2}});  // as AveragedModel has them
  EXPECT_THAT(why_not(path, {scalar("a")}), HasSubstr("1 tensor does not fit"));
  write_scalars(path, {{"module.a", 1}, {"a", 2}});
  EXPECT_THAT(why_not(path, {scalar("a")}), HasSubstr("are both a without their prefixes"));
  write_scalars(path, {{"module.wte.weight", 1}});
  EXPECT_EQ(why_not(path, {scalar("transformer.wte.weight")}), "") << "and GPT-2's on top";
}

TEST(OpenWeights, ReportNamesFive) {
  LoadReport report{.source = "f", .loaded = 3, .fresh = 0, .skipped = {}};
  EXPECT_EQ(report.to_string(), "f: 3 tensors loaded");
  report.skipped = {"a", "b", "c", "d", "e", "f", "bn.num_batches_tracked"};
  report.fresh = 2;
  EXPECT_EQ(report.to_string(),
            "f: 3 tensors loaded, 7 skipped (a, b, c, d, e, and 1 more, 1 num_batches_tracked), 2 "
            "new");
}

}  // namespace
}  // namespace lockstep::io
