// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/settings/train_flags.h"

namespace lockstep {

using Texts = std::vector<std::string>;

/// Where a setting applies at all: `--momentum` with `--optimizer sgd`.
struct Applies {
  std::string on;  ///< the setting that decides, declared before this one: "optimizer"
  /// Whether a setting of value `text` applies to `flags`, in which `on` has its final value.
  std::function<bool(const TrainFlags& flags, std::string_view text)> holds;
  std::string hint;  ///< "it belongs to --optimizer sgd"
};

/// A row of the settings table: all that command line, TOML files, precedence, --help, completion,
/// man pages and the comparison at resume know of a setting.
struct Setting {
  enum class Arity : std::uint8_t {
    one,   ///< --name VALUE; the last one counts
    list,  ///< --name VALUE, may be repeated
    flag   ///< --name
  };
  std::string name;      ///< the flag without dashes, and the key in TOML
  std::string group;     ///< heading in --help
  std::string type;      ///< of the value, in --help: "N", "sgd|adamw"
  std::string help;      ///< one sentence, without a full stop
  std::string fallback;  ///< the default that --help shows
  Arity arity = Arity::one;
  bool commas = false;  ///< list: --hidden 64,64 is two values
  bool saved = true;    ///< part of config.toml; false: it belongs to one start, as --force
  /// All of these must hold, or the setting is refused.
  std::vector<Applies> applies = {};
  /// A value from a file is dropped where one of these was typed: --steps of a file by --epochs.
  std::vector<std::string> yields_to = {};
  /// What the library compares at resume that this setting is a part of: "model". Empty: itself.
  std::string part_of = {};

  /// Writes `texts` (never empty) into `flags`. Throws ConfigError: flag, value found, expected.
  std::function<void(TrainFlags& flags, const Texts& texts)> set;
  /// The texts that set() would read the value in `flags` from; nothing: it was not given, and its
  /// absence says so.
  std::function<std::optional<Texts>(const TrainFlags& flags)> get;

  // For the table's rows, in the order in which they are read.
  Setting& shown_as(std::string text) { return fallback = std::move(text), *this; }
  Setting& typed(std::string text) { return type = std::move(text), *this; }
  Setting& when(Applies condition) { return applies.push_back(std::move(condition)), *this; }
  Setting& yields(std::vector<std::string> to) { return yields_to = std::move(to), *this; }
  Setting& belongs_to(std::string key) { return part_of = std::move(key), *this; }
  Setting& of_one_start() { return saved = false, *this; }
};

/// All settings of `lockstep train`, in the order of --help. A setting comes after those that its
/// `applies` names.
const std::vector<Setting>& settings_table();

/// The row `name`, without dashes; null: there is none.
const Setting* find_setting(std::string_view name);

/// The flag of a parameter of the library, for set_parameter_style(): "--micro-batch" of
/// "micro_batch"; empty: no setting has that name.
std::string flag_of_parameter(std::string_view parameter);

/// The flags before any setting is read: the defaults that --help shows, but for those that follow
/// from the model (default_recipe) or from other settings.
TrainFlags default_flags();

/// Throws ConfigError unless `setting` with the value `text` applies to `flags`.
void expect_applies(const Setting& setting, const TrainFlags& flags, std::string_view text);

/// The condition of `setting` that does not hold; null: it applies.
const Applies* broken_condition(const Setting& setting,
                                const TrainFlags& flags,
                                std::string_view text);

}  // namespace lockstep
