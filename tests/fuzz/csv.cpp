// SPDX-License-Identifier: Apache-2.0
// Tables to train on, with and without a validation part, by several options; and as rows for a
// trained model.
#include <fmt/format.h>

#include "core/data/table/table_inputs.h"
#include "lockstep/data/sources.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/load_samples.h"

using namespace lockstep;

namespace {

/// A model of the columns a, of numbers, and b, of the texts x and y.
data::Preprocessing trained_model() {
  data::ColumnRecord a, b;
  a.name = "a";
  a.fill = 1;
  b.name = "b";
  b.kind = data::ColumnRecord::Kind::categorical;
  b.categories = {"x", "y"};
  data::TableRecord table;
  table.columns = {a, b};
  table.targets.push_back({.name = "y"});
  table.id_columns = {"id"};
  data::Preprocessing record;
  record.source = "csv";
  record.class_names = {"0", "1"};
  record.samples.input = {{3}, DType::f32};
  record.samples.target = {{}, DType::i32};
  record.samples.classes = 2;
  record.table = table;
  return record;
}

const std::vector<data::TableOptions>& all_options() {
  using data::Missing;
  static const std::vector<data::TableOptions> options{
      {},
      {.task = data::Task::regression, .missing = Missing::median, .dropped = {"1"}},
      {.task = data::Task::classification, .label_columns = {"1"}, .missing = Missing::drop},
      {.label_columns = {"1", "-1"}, .separator = ';', .missing = Missing::mean},
      {.missing = Missing::category, .id_columns = {"2"}},
      {.missing = Missing::median, .categorical = {"1"}, .skips_bad_rows = true},
      {.label_columns = {"1", "-1"}, .skips_bad_rows = true}};
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static const fuzz::InputFile file;
  static const data::Preprocessing trained = trained_model();
  file.write(data, bytes);
  for (const data::TableOptions& options : all_options())
    fuzz::run_parser(bytes, [&] {
      fuzz::load_samples(data::csv(file.path(), options, 0.5 * double(bytes % 2), bytes));
    });
  fuzz::run_parser(bytes, [&] {
    const data::TableOptions options{.skips_bad_rows = bytes % 2 == 0};
    fuzz::load_samples(data::csv(file.path(), options, 1.0, bytes, &trained).validation);
  });
  fuzz::run_parser(bytes, [&] {
    const auto inputs = data::read_table_inputs("input", fuzz::as_text(data, bytes), trained);
    fuzz::require(inputs.values.size() == 3 * inputs.lines.size() &&
                      (inputs.ids.empty() || inputs.ids.size() == inputs.lines.size()),
                  "more or fewer values than rows and features");
  });
  return 0;
}

namespace lockstep::fuzz {

std::vector<std::string> large_inputs() {
  constexpr std::size_t kBytes = 4'000'000;
  std::string classes = "x,y\n", columns = "c0", texts, row;
  for (int i = 0; classes.size() < kBytes; ++i) classes += fmt::format("1,a{}\n", i);
  for (int i = 1; i < 1000; ++i) columns += fmt::format(",c{}", i);
  columns += '\n';
  for (int i = 0; columns.size() < kBytes; ++i)
    for (int column = 0; column < 1000; ++column)
      columns += fmt::format("t{}{}", i, column + 1 < 1000 ? ',' : '\n');
  return {"x,y\n" + repeated("1,a\n1,b\n", kBytes),
          repeated("a,", kBytes / 2) + "y\n" + repeated("1,", kBytes / 2) + "a",
          "x,y\n\"" + repeated("\"\"", kBytes) + "\",1",
          "x,y\n" + repeated("1,0.5\n,7\n", kBytes),
          "a,b,id,y\n" + repeated("1,x,7,1\nz,y,7,0\n", kBytes),
          "a,b,id,y\n" + repeated("\"1,x,7,1\n1,y,7,0\n", kBytes),
          "x,y\n" + repeated("1,a\n", kBytes - 1000) + repeated("t,0.5\n", 500),
          "0,1,y\n" + repeated("1,2,a\n", kBytes) + repeated("1,2\n", kBytes / 4),
          classes,
          columns};
}

}  // namespace lockstep::fuzz
