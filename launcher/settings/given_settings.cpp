// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/given_settings.h"

#include <algorithm>

#include "core/base/error.h"
#include "launcher/settings/default_recipe.h"
#include "launcher/settings/flag_values.h"
#include "launcher/settings/open_data.h"
#include "launcher/settings/resolve_settings.h"

namespace lockstep {

void GivenSettings::drop(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
}

bool GivenSettings::typed(std::string_view name) const {
  const Value* const value = find(name);
  return value != nullptr && value->source == SettingSource::command_line;
}

const GivenSettings::Value* GivenSettings::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

std::string GivenSettings::text(std::string_view name, std::string_view otherwise) const {
  const Value* const value = find(name);
  return value == nullptr ? std::string(otherwise) : value->texts.back();
}

void declare_settings(CLI::App& app) {
  for (const Setting& setting : settings_table()) {
    const std::string flag = "--" + setting.name;
    CLI::Option* option = nullptr;
    if (setting.arity == Setting::Arity::flag) {
      option = app.add_flag(flag, setting.help)->take_last();
    } else {
      option = app.add_option(
          flag, CLI::callback_t([](const CLI::results_t&) { return true; }), setting.help);
      option->type_name(setting.type)->type_size(1)->default_str(setting.fallback);
      if (setting.arity == Setting::Arity::one)
        option->take_last();
      else
        option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
      if (setting.commas) option->delimiter(',');
    }
    option->group(setting.group);
  }
}

GivenSettings typed_settings(const CLI::App& app) {
  GivenSettings given;
  for (const Setting& setting : settings_table()) {
    const CLI::Option* const option = app.get_option("--" + setting.name);
    if (option->count() > 0)
      given.set(setting.name, option->results(), SettingSource::command_line);
  }
  return given;
}

namespace {

void start_from_recipe(const DefaultRecipe& recipe, TrainFlags& flags) {
  flags.options.optimizer = recipe.optimizer;
  flags.options.clip_norm = recipe.clip_norm;
  for (const auto& [name, text] : {std::pair("lr-schedule", recipe.lr_schedule),
                                   std::pair("warmup-steps", recipe.warmup_steps)})
    find_setting(name)->set(flags, {std::string(text)});
}

/// Whether `text`, of a file, has to give way to what was typed although it applies.
bool yields(const Setting& setting,
            const std::string& text,
            const GivenSettings& given,
            const std::string& data_of_file) {
  if (std::ranges::any_of(setting.yields_to,
                          [&](const std::string& other) { return given.typed(other); }))
    return true;
  // Data of the same kind may be the same at another place.
  if (setting.name == "val-fraction")
    return given.typed("data") && source_kind(given.text("data")) != source_kind(data_of_file);
  return setting.name == "micro-batch" && given.typed("global-batch") &&
         to_whole_number(text) > to_whole_number(given.text("global-batch"));
}

}  // namespace

TrainFlags read_settings(const GivenSettings& all, const std::string& data_of_file) {
  GivenSettings given = all;
  TrainFlags flags = default_flags();
  flags.placeholder = given.placeholder;
  flags.ranks_from_run = given.ranks_from_run;
  for (const Setting& setting : settings_table()) {
    const GivenSettings::Value* const value = given.find(setting.name);
    if (value != nullptr) {
      const std::string text = value->texts.back();
      const Applies* const broken = broken_condition(setting, flags, text);
      const bool overruled = value->source == SettingSource::file
                                 ? yields(setting, text, given, data_of_file) ||
                                       (broken != nullptr && given.typed(broken->on))
                                 : value->source == SettingSource::derived && broken != nullptr;
      if (overruled) {
        given.drop(setting.name);
      } else {
        expect_applies(setting, flags, text);
        setting.set(flags, value->texts);
      }
    }
    if (setting.name == "model")
      start_from_recipe(default_recipe(given.recipe.empty() ? flags.model.name : given.recipe),
                        flags);
  }
  if (const auto* const data = given.find("data"))
    flags.data_from_file = data->source == SettingSource::file;
  resolve_settings(given, flags);
  return flags;
}

}  // namespace lockstep
