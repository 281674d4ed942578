// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/setting_precedence.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/nn/zoo.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/gpt_flags.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/table_flags.h"

namespace lockstep {
namespace {

/// The flags that were typed.
class CommandLine {
 public:
  explicit CommandLine(const CLI::App& app) : app_(app) {}

  bool any(std::initializer_list<const char*> flags) const {
    return std::any_of(
        flags.begin(), flags.end(), [&](const char* f) { return app_.count(f) > 0; });
  }
  std::optional<std::string> value(const char* flag) const {
    if (app_.count(flag) == 0) return std::nullopt;
    return app_.get_option(flag)->results().back();
  }
  bool is(const char* flag, std::string_view wanted) const { return value(flag) == wanted; }
  bool is_other_than(const char* flag, std::string_view wanted) const {
    const auto typed = value(flag);
    return typed && *typed != wanted;
  }

 private:
  const CLI::App& app_;
};

bool one_of_flags(const std::string& flag, std::initializer_list<std::string_view> flags) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

bool model_overrules(const CommandLine& typed, const std::string& flag) {
  if (flag == "--hidden") return typed.is_other_than("--model", "mlp");
  const auto model = typed.value("--model");
  if (flag == "--stem") return model && !nn::has_stem(*model);
  if (one_of_flags(flag, {"--layers", "--heads", "--width", "--bias", "--tied-head", "--gelu"}))
    return typed.is_other_than("--model", "gpt");
  return flag == "--batch-norm" && model && (*model == "mlp" || is_gpt(*model));
}

bool data_overrules(const CommandLine& typed,
                    const std::string& flag,
                    std::string_view value,
                    std::string_view data_of_file) {
  const auto data = typed.value("--data");
  if (!data) return false;
  const bool table = data->starts_with("csv:"), tokens = has_tokens(*data);
  const bool files = data->starts_with("images:") || data->starts_with("packed:");
  if (flag == "--image-size" || flag == "--max-pixels") return !files;
  if (is_table_flag(flag)) return !table;
  if (flag == "--augment")
    return table || tokens || (!files && value.find("resized-crop") != value.npos);
  // Of the same kind they may be the same data at another place.
  if (flag == "--val-fraction") return source_kind(*data) != source_kind(data_of_file);
  if (flag == "--vocabulary") return !data->starts_with("tokens:");
  return flag == "--context" && !tokens;
}

bool loss_overrules(const CommandLine& typed, const std::string& flag) {
  if (flag == "--huber-delta") return typed.is_other_than("--loss", "huber");
  return flag == "--label-smoothing" && typed.is_other_than("--loss", "auto") &&
         typed.is_other_than("--loss", "cross-entropy");
}

bool batch_overrules(const CommandLine& typed, const std::string& flag, const std::string& value) {
  if (one_of_flags(flag, {"--epochs", "--steps", "--samples"}))
    return typed.any({"--epochs", "--steps", "--samples"});
  if (flag == "--accumulation") return typed.any({"--global-batch", "--micro-batch", "--ranks"});
  if (flag != "--micro-batch") return false;
  const auto global_batch = typed.value("--global-batch");
  return typed.any({"--accumulation"}) ||
         (global_batch && to_whole_number(value) > to_whole_number(*global_batch));
}

bool optimizer_overrules(const CommandLine& typed, const std::string& flag) {
  if (one_of_flags(flag, {"--beta1", "--beta2", "--eps"}))
    return typed.is_other_than("--optimizer", "adamw");
  if (one_of_flags(flag, {"--momentum", "--nesterov"}))
    return typed.is_other_than("--optimizer", "sgd") ||
           (flag == "--nesterov" && typed.is("--momentum", "0"));
  if (one_of_flags(flag, {"--min-lr", "--decay-steps"}))
    return typed.is("--lr-schedule", "constant");
  if (one_of_flags(flag, {"--step-every", "--step-factor"}))
    return typed.is_other_than("--lr-schedule", "step");
  if (one_of_flags(flag, {"--no-decay", "--decay-all"}))
    return typed.any({"--no-decay", "--decay-all"}) || typed.is("--weight-decay", "0");
  return false;
}

}  // namespace

bool is_overridden(const CLI::App& app,
                   const std::string& flag,
                   const std::string& value,
                   const std::string& data_of_file) {
  const CommandLine typed(app);
  return app.count(flag) > 0 || model_overrules(typed, flag) ||
         data_overrules(typed, flag, value, data_of_file) || batch_overrules(typed, flag, value) ||
         loss_overrules(typed, flag) || optimizer_overrules(typed, flag);
}

}  // namespace lockstep
