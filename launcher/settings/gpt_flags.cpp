// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/gpt_flags.h"

#include "core/base/error.h"
#include "core/nn/gpt.h"
#include "launcher/settings/command_line_arguments.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMaxOfASize = 1 << 20;
constexpr const char* kSizeFlags[] = {
    "--layers", "--heads", "--width", "--bias", "--tied-head", "--gelu"};

void refuse_flag(const CLI::App& app,
                 const char* flag,
                 const std::string& because,
                 const char* hint) {
  if (app.count(flag) > 0)
    throw ConfigError(fmt::format("{} has no meaning with {}", flag, because), hint);
}

}  // namespace

bool is_gpt(const std::string& model) { return model == "gpt" || nn::is_gpt2_preset(model); }

bool has_tokens(const std::string& data) {
  return data.starts_with("text:") || data.starts_with("tokens:");
}

void resolve_gpt(const CLI::App& app, const CommandLineArguments& raw, nn::ModelSpec& spec) {
  const std::string chosen = "--model " + raw.model;
  if (raw.model != "gpt") {
    const bool preset = nn::is_gpt2_preset(raw.model);
    for (const char* flag : kSizeFlags)
      refuse_flag(
          app, flag, chosen, preset ? "--model gpt takes any size" : "it belongs to --model gpt");
    if (preset) nn::apply_gpt2_preset(spec);
    return;
  }
  for (const auto& [flag, value] : {std::pair("--layers", raw.layers),
                                    std::pair("--heads", raw.heads),
                                    std::pair("--width", raw.width)})
    LOCKSTEP_CHECK(value <= kMaxOfASize,
                   ConfigError,
                   "{} is {}, expected at most {}",
                   flag,
                   value,
                   kMaxOfASize);
  spec.layers = int(raw.layers);
  spec.heads = int(raw.heads);
  spec.width = raw.width;
  spec.context = raw.context;
  spec.bias = raw.bias == "on";
  spec.tied_head = raw.tied_head == "on";
  spec.gelu = raw.gelu == "erf" ? ops::GeluKind::erf : ops::GeluKind::tanh;
  LOCKSTEP_CHECK(spec.width % spec.heads == 0,
                 ConfigError,
                 "--width {} is no multiple of --heads {}",
                 spec.width,
                 spec.heads);
}

void resolve_tokens(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags) {
  const std::string chosen = "--data " + raw.data;
  if (!has_tokens(raw.data)) {
    refuse_flag(app, "--context", chosen, "it belongs to text:FILE and tokens:PATH");
    refuse_flag(app, "--vocabulary", chosen, "it belongs to tokens:PATH");
    LOCKSTEP_CHECK(!is_gpt(raw.model),
                   ConfigError,
                   "--model {} reads tokens, {} has none; use --data text:FILE or tokens:PATH",
                   raw.model,
                   chosen);
    return;
  }
  LOCKSTEP_CHECK(is_gpt(raw.model),
                 ConfigError,
                 "{} has tokens, --model {} does not read them; use --model gpt",
                 chosen,
                 raw.model);
  if (!raw.data.starts_with("tokens:"))
    refuse_flag(app, "--vocabulary", chosen, "a text's vocabulary is its characters");
  LOCKSTEP_CHECK(
      app.count("--val-fraction") == 0 || raw.val_fraction > 0,
      ConfigError,
      "--val-fraction 0 leaves nothing to validate on; --eval-every 0 spares the validation");
  const bool preset = nn::is_gpt2_preset(raw.model);
  flags.context = preset && app.count("--context") == 0 ? flags.model.context : raw.context;
  LOCKSTEP_CHECK(flags.context <= flags.model.context,
                 ConfigError,
                 "--context {} is longer than the {} positions of --model {}",
                 flags.context,
                 flags.model.context,
                 raw.model);
  flags.vocabulary = raw.vocabulary;
}

}  // namespace lockstep
