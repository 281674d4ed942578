// SPDX-License-Identifier: Apache-2.0
// Learns the classes of a table from two features, and says how many of the others it knows.
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
    auto model = [classes](ls::Builder& nn, ls::Value x) {
      x = nn.relu(nn.linear(x, {.out_features = 10}));
      return nn.linear(x, {.out_features = classes});
    };
    ls::Trainer trainer(job,
                        model,
                        ls::softmax_cross_entropy,
                        {.global_batch = table.train->size(),
                         .steps = 500,
                         .optimizer = ls::Sgd{.lr = 0.1f, .momentum = 0.9f}});
    const ls::TrainSummary summary = trainer.fit(table);
    if (job.rank() == 0) std::printf("accuracy %.2f%%\n", 100 * summary.val_accuracy);
  });
}
