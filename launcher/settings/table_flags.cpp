// SPDX-License-Identifier: Apache-2.0
#include "launcher/settings/table_flags.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "launcher/settings/command_line_arguments.h"
#include "launcher/settings/resume_target.h"

namespace lockstep {
namespace {

using data::Missing;
using data::Task;

constexpr std::string_view kTableFlags[] = {"--task",
                                            "--label-column",
                                            "--separator",
                                            "--missing",
                                            "--drop",
                                            "--id-column",
                                            "--categorical"};

char to_separator(const std::string& text) {
  if (text == "auto") return '\0';
  if (text == "tab" || text == "\\t") return '\t';
  const char c = text.empty() ? '\0' : text[0];
  // Numbers and quotes need these themselves.
  const bool taken = std::string_view("\"+-.").find(c) != std::string_view::npos;
  LOCKSTEP_CHECK(
      text.size() == 1 && (c == '\t' || (std::ispunct(static_cast<unsigned char>(c)) && !taken)),
      ConfigError,
      "--separator '{}': expected auto, tab or one character as , ; or |",
      text);
  return c;
}

}  // namespace

void resolve_table(const CLI::App& app, const CommandLineArguments& raw, TrainFlags& flags) {
  if (!raw.data.starts_with("csv:")) {
    for (const std::string_view flag : kTableFlags)
      if (app.count(std::string(flag)) > 0)
        throw ConfigError(fmt::format("{} has no meaning with --data {}", flag, raw.data),
                          "it belongs to csv:FILE");
    return;
  }
  data::TableOptions& table = flags.table;
  for (const Task task : {Task::classification, Task::regression, Task::multi_label})
    if (raw.task == data::name_of(task)) table.task = task;
  for (const Missing missing :
       {Missing::error, Missing::mean, Missing::median, Missing::drop, Missing::category})
    if (raw.missing == name_of(missing)) table.missing = missing;
  table.separator = to_separator(raw.separator);
  table.label_columns = raw.label_columns;
  table.dropped = raw.drop;
  table.id_columns = raw.id_columns;
  table.categorical = raw.categorical;
  table.skips_bad_rows = raw.skip_bad_samples;
  // A run goes on with the features that it has, also where it was begun by a version that embedded
  // no column.
  if (const auto record = record_of_run(raw.resume, raw.out); record && record->table)
    for (const data::ColumnRecord& column : record->table->columns)
      if (column.kind == data::ColumnRecord::Kind::categorical && !column.embedded)
        table.one_hot_columns.push_back(column.name);
}

std::span<const std::string_view> table_flags() { return kTableFlags; }

bool is_table_flag(std::string_view flag) {
  return std::ranges::find(kTableFlags, flag) != std::end(kTableFlags);
}

std::string_view name_of(Missing missing) {
  constexpr std::string_view kNames[] = {"error", "mean", "median", "drop", "category"};
  return kNames[std::size_t(missing)];
}

std::string separator_text(char separator) {
  if (separator == '\0') return "auto";
  return separator == '\t' ? "tab" : std::string(1, separator);
}

}  // namespace lockstep
