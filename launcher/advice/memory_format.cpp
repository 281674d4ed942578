// SPDX-License-Identifier: Apache-2.0
#include "launcher/advice/memory_format.h"

#include <fmt/format.h>

#include "core/base/text/number_format.h"

namespace lockstep {
namespace {

std::string table_line(const std::string& name,
                       const std::optional<std::uint64_t>& bytes,
                       const std::string& note = {}) {
  return fmt::format("  {:<22} {:>20}  {:>11}{}\n",
                     name,
                     bytes ? format_count(double(*bytes)) : "",
                     bytes ? format_bytes(double(*bytes)) : "unknown",
                     note);
}

std::string categories_text(const MemoryTable& table) {
  using enum MemoryCategory;
  std::string text;
  for (std::size_t i = 0; i < kMemoryCategories; ++i) {
    const auto category = MemoryCategory(i);
    if (category == context) continue;
    const bool in_arena = category == activations || category == workspace || category == input;
    text += table_line(
        words_of(category), table.bytes[i], in_arena ? "  arena, when most is live" : "");
  }
  return text;
}

}  // namespace

std::string format_memory_table(const MemoryTable& table,
                                const TableSubject& subject,
                                const std::string& arena_note) {
  std::string text = categories_text(table);
  const std::uint64_t device = table.on_device();
  const auto context = MemoryCategory::context;
  const auto& measured = table[context];
  text += table_line(
      subject.complete ? "on the device" : "on the device, at least", device, arena_note);
  if (!subject.on_host) {
    text += table_line("on the host", table.planned() - device);
    return text + table_line(words_of(context),
                             measured,
                             measured ? "  measured on this GPU, with the kernels made" : "");
  }
  text += table_line("planned", table.planned(), "  with snapshot, loader and image decoding");
  text +=
      table_line(words_of(context),
                 measured,
                 measured ? "  measured on this machine: this process with the kernels made" : "");
  if (measured) text += table_line("total", table.total());
  return text;
}

std::string format_memory_fix(const MemoryFix& fix, std::int64_t global_batch, bool ranks_by_flag) {
  std::string flags = fix.flags(), text;
  if (fix.ranks > 0 && ranks_by_flag)
    flags = fmt::format("--ranks {}{}{}", fix.ranks, flags.empty() ? "" : " ", flags);
  if (fix.ranks > 0 && !ranks_by_flag)
    text =
        fmt::format("{} rank{} (mpirun -np {})", fix.ranks, fix.ranks == 1 ? "" : "s", fix.ranks);
  if (!flags.empty()) text += fmt::format("{}`{}`", text.empty() ? "" : " with ", flags);
  text += fmt::format(" keeps the global batch of {}", global_batch);
  if (fix.ranks > 0) {
    text +=
        fmt::format(" and leaves each rank the {} that it needs", format_bytes(double(fix.needed)));
    return text;
  }
  if (fix.micro_batch == 0) text += " and all bits";
  return text + fmt::format(" and needs {} less", format_bytes(double(fix.saved)));
}

std::string format_other_settings(const MemoryAdvice& advice) {
  std::string text = "a smaller model";
  if (advice.least)
    text += fmt::format(" (parameters, gradients and optimizer state alone take {})",
                        format_bytes(double(advice.least->plan.fixed_bytes)));
  for (const OtherSetting& other : advice.others)
    if (other.fits)
      text += fmt::format("; `{}`, which changes what is trained and fits with {}",
                          other.flags,
                          format_bytes(double(other.needed)));
  return text;
}

}  // namespace lockstep
