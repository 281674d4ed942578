// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/axis.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

#include "core/base/number_format.h"

namespace lockstep::report {
namespace {

/// 1, 2 or 5 times a power of `base` (2 times for bytes), at least `wanted`.
double round_step(double wanted, Unit unit) {
  if (unit == Unit::bytes) return std::exp2(std::ceil(std::log2(std::max(wanted, 1.0))));
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= wanted * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/// `value` without the zeros that say nothing.
std::string trimmed(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace

double Axis::place(double value) const {
  const double share = logarithmic ? std::log(std::max(value, from) / from) / std::log(to / from)
                                   : (value - from) / (to - from);
  return std::clamp(share, 0.0, 1.0);
}

std::string tick_label(double value, double step, Unit unit) {
  if (unit == Unit::bytes) {
    if (value == 0) return "0";
    const std::string words = format_bytes(value);
    for (const std::string_view zeros : {".00 ", ".0 "})
      if (const std::size_t point = words.find(zeros); point != std::string::npos)
        return words.substr(0, point) + words.substr(point + zeros.size() - 1);
    return words;
  }
  if (unit == Unit::percent) {
    value *= 100;
    step *= 100;
  }
  const double size = std::max(std::abs(value), std::abs(step));
  const char* suffix = unit == Unit::percent ? "%" : "";
  if (size >= 1e15 || (size > 0 && step < 1e-5 && value != 0))
    return fmt::format("{:.3g}{}", value, suffix);
  constexpr std::pair<double, const char*> kSuffixes[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
  for (const auto& [from, name] : kSuffixes)
    if (std::abs(value) >= from && unit == Unit::plain) {
      const double scale = std::string_view(name) == "k" ? 1e3 : from;
      const int digits = std::clamp(int(std::ceil(-std::log10(step / scale) - 1e-9)), 0, 6);
      return trimmed(value / scale, digits) + name;
    }
  const int digits = std::clamp(int(std::ceil(-std::log10(step) - 1e-9)), 0, 12);
  return trimmed(value, digits) + suffix;
}

Axis linear_axis(double least, double greatest, int count, Ends ends, Unit unit) {
  Axis axis;
  if (!std::isfinite(least) || !std::isfinite(greatest) || greatest < least) {
    least = 0;
    greatest = 1;
  }
  constexpr double kNothing = 1e-100;
  if (std::max(std::abs(least), std::abs(greatest)) < kNothing) least = greatest = 0;
  // Where doubles hardly tell the ends apart, there is nothing to divide.
  if (greatest - least <= 1e-9 * std::max(std::abs(least), std::abs(greatest))) {
    const double margin = least == 0 ? 1 : std::abs(least) / 10;
    least = least > 0 && least <= margin ? 0 : least - margin;
    greatest += margin;
  }
  double step = round_step((greatest - least) / count, unit);
  if (ends == Ends::rounded) {
    least = std::floor(least / step + 1e-9) * step;
    greatest = std::ceil(greatest / step - 1e-9) * step;
  }
  if (!(greatest > least)) greatest = least + step;
  axis.from = least;
  axis.to = greatest;
  for (double i = std::ceil(least / step - 1e-9); i * step <= greatest + 1e-9 * step; ++i) {
    const double value = i * step + 0.0;  // of -0, 0
    axis.ticks.push_back({value, tick_label(value, step, unit)});
  }
  return axis;
}

Axis logarithmic_axis(double least, double greatest) {
  Axis axis;
  axis.logarithmic = true;
  axis.from = least;
  axis.to = greatest > least ? greatest : least * 10;
  const double decades = std::log10(axis.to / axis.from);
  const int every = std::max(1, int(std::ceil(decades / 7)));
  for (auto power = int(std::floor(std::log10(axis.from))); power <= std::log10(axis.to);
       power += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && (every > 1 || decades > 3)) continue;
      const double value = factor * std::pow(10.0, power);
      if (value < axis.from * (1 - 1e-9) || value > axis.to * (1 + 1e-9)) continue;
      const bool plain = value >= 1e-4 && value < 1e15;
      axis.ticks.push_back(
          {value, plain ? tick_label(value, value, Unit::plain) : fmt::format("{:.0e}", value)});
    }
  return axis;
}

}  // namespace lockstep::report
