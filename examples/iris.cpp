// SPDX-License-Identifier: Apache-2.0
// A small network on a table with the class in its last column.  iris FILE.csv
#include <cstdio>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE.csv\n", argv[0]);
    return 2;
  }
  return ls::run_job(argc, argv, [&](ls::Job& job) {
    const ls::data::DataSplit table = ls::data::csv(argv[1], /*validation_fraction=*/0.2);
    const int classes = table.train->spec().classes;
    auto model = [classes](ls::Builder& nn, ls::Value x) {  // x: [N, features]
      x = nn.relu(nn.linear(x, {.out_features = 10}));
      return nn.linear(x, {.out_features = classes});
    };
    const std::int64_t all = table.train->size();
    ls::Trainer trainer(job,
                        model,
                        ls::softmax_cross_entropy,
                        {.global_batch = all,
                         .micro_batch = (all + job.size() - 1) / job.size(),
                         .steps = 2000,
                         .optimizer = ls::Sgd{.lr = 0.1f, .momentum = 0.9f},
                         .log_every = 500,
                         .eval_every = 1000});
    ls::Console console(ls::console_kind());
    ls::Progress progress(console);
    trainer.add_observer(progress);
    trainer.fit(table);
  });
}
