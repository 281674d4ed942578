// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <type_traits>

#include "launcher/settings/flag_values.h"
#include "launcher/settings/table/setting.h"

namespace lockstep {

/// The largest N of a flag: products of several numbers of samples and steps stay far from
/// overflow.
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
/// The largest X: below the largest float, as which such values are kept.
inline constexpr double kMaxReal = 3e38;

/// Where a value lies in TrainFlags, for SettingRows: LOCKSTEP_AT(options.log_every). Also in const
/// ones.
#define LOCKSTEP_AT(path) \
  [](auto& flags) -> auto& { return flags.path; }

/// The words that a setting takes, and what each stands for.
template <typename Value>
using Words = std::vector<std::pair<std::string_view, Value>>;

/// Adds the rows of one heading of --help, one function a kind of value. `member` is
/// LOCKSTEP_AT().
class SettingRows {
 public:
  SettingRows(std::vector<Setting>& table, std::string group)
      : table_(table), group_(std::move(group)) {}

  /// A row without `set` and `get`.
  Setting& add(std::string name, std::string type, std::string help);
  /// A row whose texts `set` and `get` know alone.
  Setting& custom(std::string name,
                  std::string type,
                  std::string help,
                  std::function<void(TrainFlags&, const std::string&)> set,
                  std::function<std::optional<std::string>(const TrainFlags&)> get);

  /// Any text. Empty: not given.
  template <typename Member>
  Setting& text(std::string name, std::string type, Member member, std::string help) {
    return custom(
        std::move(name),
        std::move(type),
        std::move(help),
        [member](TrainFlags& flags, const std::string& text) { member(flags) = text; },
        [member](const TrainFlags& flags) -> std::optional<std::string> {
          if (member(flags).empty()) return std::nullopt;
          return member(flags);
        });
  }

  /// One of some words, each with its value.
  template <typename Member, typename Value>
  Setting& choice(std::string name, Member member, Words<Value> words, std::string help) {
    std::vector<std::string_view> names;
    for (const auto& [word, value] : words) names.push_back(word);
    const auto check = one_of("--" + name, names);
    return custom(
        std::move(name),
        fmt::format("{}", fmt::join(names, "|")),
        std::move(help),
        [member, words, check](TrainFlags& flags, const std::string& text) {
          check(text);
          for (const auto& [word, value] : words)
            if (word == text) member(flags) = value;
        },
        [member, words](const TrainFlags& flags) -> std::optional<std::string> {
          for (const auto& [word, value] : words)
            if (member(flags) == value) return std::string(word);
          return std::nullopt;
        });
  }
  /// One of some words, kept as text.
  template <typename Member>
  Setting& word(std::string name,
                Member member,
                const std::vector<std::string_view>& words,
                std::string help) {
    Words<std::string_view> pairs;
    for (const std::string_view word : words) pairs.emplace_back(word, word);
    return choice(std::move(name), member, std::move(pairs), std::move(help));
  }
  /// on or off.
  template <typename Member>
  Setting& on_off(std::string name, Member member, std::string help) {
    return choice<Member, bool>(
        std::move(name), member, {{"on", true}, {"off", false}}, std::move(help));
  }

  /// A whole number in [min, max]. A value below `min`, as the 0 of what has no default, is "not
  /// given".
  template <typename Member>
  Setting& whole(std::string name,
                 Member member,
                 std::int64_t min,
                 std::string help,
                 std::int64_t max = kMaxCount) {
    const auto check = whole_number("--" + name, min, max);
    return number(std::move(name), "N", member, double(min), std::move(help), check);
  }
  /// "auto", which is kept as `automatic`, or a whole number.
  template <typename Member>
  Setting& whole_or_auto(std::string name,
                         Member member,
                         std::int64_t automatic,
                         std::int64_t min,
                         std::int64_t max,
                         std::string help) {
    using Stored = std::remove_cvref_t<decltype(member(std::declval<TrainFlags&>()))>;
    const auto check = whole_number_or("--" + name, "auto", min, max);
    return custom(
        std::move(name),
        "auto|N",
        std::move(help),
        [=](TrainFlags& flags, const std::string& text) {
          check(text);
          member(flags) = Stored(text == "auto" ? automatic : to_whole_number(text));
        },
        [=](const TrainFlags& flags) -> std::optional<std::string> {
          return std::int64_t(member(flags)) == automatic ? "auto"
                                                          : fmt::format("{}", member(flags));
        });
  }
  /// A finite number in [min, max], with the rule of whole().
  template <typename Member>
  Setting& real(std::string name, Member member, double min, double max, std::string help) {
    const auto check = real_number("--" + name, min, max);
    return number(std::move(name), "X", member, min, std::move(help), check);
  }

  /// May be repeated.
  template <typename Member>
  Setting& list(std::string name, std::string type, Member member, std::string help) {
    Setting& row = add(std::move(name), std::move(type), std::move(help));
    row.arity = Setting::Arity::list;
    row.set = [member](TrainFlags& flags, const Texts& texts) { member(flags) = texts; };
    row.get = [member](const TrainFlags& flags) -> std::optional<Texts> {
      if (member(flags).empty()) return std::nullopt;
      return member(flags);
    };
    return row;
  }
  /// The same, of regular expressions.
  template <typename Member>
  Setting& patterns(std::string name, Member member, std::string help) {
    Setting& row = list(std::move(name), "REGEX", member, std::move(help));
    row.set = [member, flag = "--" + row.name](TrainFlags& flags, const Texts& texts) {
      expect_patterns(flag, texts);
      member(flags) = texts;
    };
    return row;
  }
  /// Given or not.
  template <typename Member>
  Setting& flag(std::string name, Member member, std::string help) {
    Setting& row = add(std::move(name), "", std::move(help));
    row.arity = Setting::Arity::flag;
    row.set = [member, flag = "--" + row.name](TrainFlags& flags, const Texts& texts) {
      member(flags) = to_bool(flag, texts.back());
    };
    row.get = [member](const TrainFlags& flags) -> std::optional<Texts> {
      if (!member(flags)) return std::nullopt;
      return Texts{"true"};
    };
    return row;
  }

 private:
  static void expect_patterns(const std::string& flag, const Texts& texts);

  template <typename Member, typename Check>
  Setting& number(std::string name,
                  std::string type,
                  Member member,
                  double min,
                  std::string help,
                  const Check& check) {
    using Stored = std::remove_cvref_t<decltype(member(std::declval<TrainFlags&>()))>;
    return custom(
        std::move(name),
        std::move(type),
        std::move(help),
        [=](TrainFlags& flags, const std::string& text) {
          check(text);
          if constexpr (std::is_integral_v<Stored>)
            member(flags) = Stored(to_whole_number(text));
          else
            member(flags) = Stored(to_real_number(text));
        },
        [=](const TrainFlags& flags) -> std::optional<std::string> {
          if (double(member(flags)) < min) return std::nullopt;
          return fmt::format("{}", member(flags));
        });
  }

  std::vector<Setting>& table_;
  const std::string group_;
};

}  // namespace lockstep
