// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "launcher/settings/table/setting.h"

namespace lockstep {

/// Where the value of a setting comes from; a higher one wins.
enum class SettingSource : std::uint8_t {
  file,         ///< a configuration file
  derived,      ///< another setting: the folder of --init, the placeholder of left-out data
  command_line  ///< the user typed it
};

/// The settings that have a value, by name, before they are read. The rows of the settings table
/// say what each means.
class GivenSettings {
 public:
  struct Value {
    Texts texts;
    SettingSource source;
    std::string place = {};  ///< of a file: "--config v.toml, line 3"
  };

  void set(const std::string& name, Texts texts, SettingSource source, std::string place = {}) {
    values_[name] = {std::move(texts), source, std::move(place)};
  }
  void drop(std::string_view name);
  bool has(std::string_view name) const { return values_.contains(name); }
  bool typed(std::string_view name) const;
  /// Null: it was not given.
  const Value* find(std::string_view name) const;
  /// The last text, or `otherwise` where it was not given.
  std::string text(std::string_view name, std::string_view otherwise = {}) const;

  /// The model whose default_recipe() counts, where it is not --model's; see take_init_folder().
  std::string recipe = {};
  bool placeholder = false;     ///< the data stand for some that are not there; see PlaceholderData
  bool ranks_from_run = false;  ///< as the field of TrainFlags

 private:
  std::map<std::string, Value, std::less<>> values_;
};

/// Declares every row of the settings table as an option of `app`.
void declare_settings(CLI::App& app);

/// What was typed, of an `app` that declare_settings() was called with and that has parsed.
GivenSettings typed_settings(const CLI::App& app);

}  // namespace lockstep
