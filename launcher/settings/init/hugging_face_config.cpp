// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/init/hugging_face_config.h"

#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/data/input_file.h"
#include "core/io/strict_json.h"

namespace lockstep {
namespace {

using nlohmann::json;

/// A config.json.
class HuggingFaceConfig {
 public:
  explicit HuggingFaceConfig(const std::string& file) : file_(file) {
    constexpr int kMaxDepth = 32;
    config_ = io::parse_strict_json(data::read_text_file(file, ""), file, kMaxDepth);
    if (!config_.is_object()) throw DataError(file_ + ": not a JSON object");
  }

  const std::string& file() const { return file_; }
  std::int64_t size(const char* key, std::int64_t otherwise) const {
    const json value = value_of(key, otherwise);
    constexpr std::int64_t kMax = 1 << 20;
    LOCKSTEP_CHECK(value.is_number_integer() && value >= 1 && value <= kMax,
                   DataError,
                   "{}: {} is {}, expected a whole number from 1 to {}",
                   file_,
                   key,
                   value.dump(),
                   kMax);
    return value.get<std::int64_t>();
  }
  bool flag(const char* key, bool otherwise) const {
    const json value = value_of(key, otherwise);
    LOCKSTEP_CHECK(value.is_boolean(),
                   DataError,
                   "{}: {} is {}, expected true or false",
                   file_,
                   key,
                   value.dump());
    return value.get<bool>();
  }
  double number(const char* key, double otherwise) const {
    return number_of(config_, key, otherwise);
  }
  double number_of(const json& object, const char* key, double otherwise) const {
    const json value = value_in(object, key, otherwise);
    LOCKSTEP_CHECK(value.is_number() && value > 0 && value < 1e12,
                   DataError,
                   "{}: {} is {}, expected a number above 0",
                   file_,
                   key,
                   value.dump());
    return value.get<double>();
  }
  /// Throws DataError unless the value is `expected`, the only one that `model` can be.
  void require(const char* model,
               const char* key,
               const json& expected,
               const json& otherwise) const {
    const json value = value_of(key, otherwise);
    if (value != expected)
      throw DataError(fmt::format(
          "{}: {} is {}; {} has {} only", file_, key, value.dump(), model, expected.dump()));
  }
  json value_of(const char* key, const json& otherwise) const {
    return value_in(config_, key, otherwise);
  }

 private:
  static json value_in(const json& object, const char* key, const json& otherwise) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? otherwise : *found;
  }

  std::string file_;
  json config_;
};

/// As --gelu spells what Hugging Face's names mean.
std::string gelu_of(const HuggingFaceConfig& config) {
  const json name = config.value_of("activation_function", "gelu_new");
  if (name == "gelu") return "erf";
  for (const char* same : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh"})
    if (name == same) return "tanh";
  throw DataError(
      fmt::format("{}: activation_function is {}; gpt has gelu, gelu_new, gelu_fast and "
                  "gelu_pytorch_tanh",
                  config.file(),
                  name.dump()));
}

HuggingFaceModel gpt2_of(const HuggingFaceConfig& config) {
  const std::int64_t inner = 4 * config.size("n_embd", 768);
  config.require("gpt", "n_inner", inner, inner);
  config.require("gpt", "layer_norm_epsilon", 1e-5, 1e-5);
  config.require("gpt", "scale_attn_weights", true, true);
  config.require("gpt", "scale_attn_by_inverse_layer_idx", false, false);
  config.require("gpt", "add_cross_attention", false, false);
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return std::to_string(config.size(key, otherwise));
  };
  return {"gpt2",
          "gpt",
          {{"layers", size("n_layer", 12), "n_layer"},
           {"heads", size("n_head", 12), "n_head"},
           {"width", size("n_embd", 768), "n_embd"},
           {"context", size("n_positions", 1024), "n_positions"},
           {"bias", "on", "every bias"},
           {"tied-head",
            config.flag("tie_word_embeddings", true) ? "on" : "off",
            "tie_word_embeddings"},
           {"gelu", gelu_of(config), "activation_function"}},
          {"vocabulary", size("vocab_size", 50257), "vocab_size"}};
}

/// As --rope-scaling spells what config.json says of rotary positions.
std::string rope_scaling_of(const HuggingFaceConfig& config, const json& rope) {
  if (rope.is_null()) return "none";
  LOCKSTEP_CHECK(rope.is_object(),
                 DataError,
                 "{}: rope_scaling or rope_parameters is {}, expected an object",
                 config.file(),
                 rope.dump());
  const json type = rope.value("rope_type", rope.value("type", json("default")));
  if (type == "default") return "none";
  LOCKSTEP_CHECK(type == "llama3",
                 DataError,
                 "{}: rope_type is {}; llama has \"default\" and \"llama3\"",
                 config.file(),
                 type.dump());
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"})
    LOCKSTEP_CHECK(rope.contains(key),
                   DataError,
                   "{}: rope_type \"llama3\" needs {}, which is not there",
                   config.file(),
                   key);
  const double context = config.number("original_max_position_embeddings",
                                       config.number("max_position_embeddings", 2048));
  return fmt::format("{}:{}:{}:{}",
                     config.number_of(rope, "factor", 0),
                     config.number_of(rope, "low_freq_factor", 0),
                     config.number_of(rope, "high_freq_factor", 0),
                     config.number_of(rope, "original_max_position_embeddings", context));
}

HuggingFaceModel llama_of(const HuggingFaceConfig& config) {
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return std::to_string(config.size(key, otherwise));
  };
  const std::int64_t heads = config.size("num_attention_heads", 32);
  const std::int64_t width = config.size("hidden_size", 4096);
  config.require("llama", "hidden_act", "silu", "silu");
  config.require("llama", "attention_bias", false, false);
  config.require("llama", "mlp_bias", false, false);
  config.require("llama", "head_dim", width / heads, width / heads);
  // Newer files have both in one object; the older name counts where both are there.
  const json older = config.value_of("rope_scaling", nullptr);
  const json scaling = older.is_null() ? config.value_of("rope_parameters", nullptr) : older;
  const double plain_theta = config.number("rope_theta", 10000);
  const double theta =
      scaling.is_object() ? config.number_of(scaling, "rope_theta", plain_theta) : plain_theta;
  return {"llama",
          "llama",
          {{"layers", size("num_hidden_layers", 32), "num_hidden_layers"},
           {"heads", std::to_string(heads), "num_attention_heads"},
           {"kv-heads", size("num_key_value_heads", heads), "num_key_value_heads"},
           {"width", std::to_string(width), "hidden_size"},
           {"mlp-width", size("intermediate_size", 11008), "intermediate_size"},
           {"context", size("max_position_embeddings", 2048), "max_position_embeddings", true},
           {"norm-eps", fmt::format("{}", config.number("rms_norm_eps", 1e-6)), "rms_norm_eps"},
           {"rope-theta", fmt::format("{}", theta), "rope_theta"},
           {"rope-scaling", rope_scaling_of(config, scaling), "rope_scaling"},
           {"tied-head",
            config.flag("tie_word_embeddings", false) ? "on" : "off",
            "tie_word_embeddings"}},
          {"vocabulary", size("vocab_size", 32000), "vocab_size"}};
}

}  // namespace

HuggingFaceModel read_hugging_face_config(const std::string& file) {
  const HuggingFaceConfig config(file);
  const json type = config.value_of("model_type", nullptr);
  if (type == "gpt2") return gpt2_of(config);
  if (type == "llama") return llama_of(config);
  throw DataError(
      fmt::format("{}: model_type is {}, expected \"gpt2\" or \"llama\"", file, type.dump()),
      "of other models, name the file with the weights: --init DIR/model.safetensors "
      "--model NAME");
}

}  // namespace lockstep
