// SPDX-License-Identifier: Apache-2.0
#include "launcher/predict/split_arguments.h"

#include "launcher/settings/flag_synonyms.h"
#include "launcher/settings/given_settings.h"

namespace lockstep {
namespace {

/// Which option of `app` the flag `argument` is, with or without =VALUE; null: none.
const CLI::Option* option_of(const CLI::App& app, const std::string& argument) {
  const std::string flag = canonical_flag(app, argument);
  return app.get_option_no_throw(flag.substr(0, flag.find('=')));
}

bool takes_value(const CLI::Option* option) {
  return option == nullptr || option->get_items_expected_max() > 0;
}

}  // namespace

SplitArguments split_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  CLI::App train;
  train.add_option("--config");
  declare_settings(train);
  bool takes_words = false;
  for (const CLI::Option* option : app.get_options()) takes_words |= option->get_positional();
  SplitArguments result;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      words.insert(words.end(), arguments.begin() + std::ptrdiff_t(i) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      words.push_back(argument);
      continue;
    }
    const bool is_own = option_of(app, argument) != nullptr;
    const CLI::App& taker = is_own ? app : train;
    const CLI::Option* option = option_of(taker, argument);
    std::vector<std::string>& side = is_own ? result.own : result.train;
    side.push_back(canonical_flag(taker, argument));
    const bool has_value = argument.find('=') != std::string::npos;
    if (!has_value && takes_value(option) && i + 1 < arguments.size())
      side.push_back(arguments[++i]);
  }
  if (!takes_words) {
    result.train.insert(result.train.end(), words.begin(), words.end());
  } else if (!words.empty()) {
    result.own.emplace_back("--");
    result.own.insert(result.own.end(), words.begin(), words.end());
  }
  return result;
}

}  // namespace lockstep
