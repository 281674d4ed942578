// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/given_settings.h"

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

}  // namespace lockstep
