// SPDX-License-Identifier: Apache-2.0
// The training loop written out, without the Trainer:  mpirun -np 2 custom_training_loop
#include <cstdio>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) {
  return ls::run_job(argc, argv, [](ls::Job& job) {
    constexpr std::int64_t kGlobalBatch = 256, kSteps = 300;
    const ls::data::DataSplit glyphs = ls::data::glyphs();
    const std::int64_t rest = glyphs.train->size() % kGlobalBatch;  // an epoch's short last batch
    const std::int64_t held_out = glyphs.validation->size();

    ls::TrainOptions options{.global_batch = kGlobalBatch, .micro_batch = 32};
    options.optimizer = ls::AdamW{.lr = 2e-3f};
    ls::Replica replica(
        job,
        ls::nn::make_model({.name = "convnet", .outputs = 10}),
        ls::softmax_cross_entropy,
        glyphs.train->spec(),
        options,
        /*tail_sizes=*/{rest % options.micro_batch, held_out % options.micro_batch});

    // Every rank walks the same epochs and loads only its own micro-batches.
    ls::TrainingFeed feed(glyphs.train->size(),
                          kGlobalBatch,
                          kSteps,
                          /*seed=*/1,
                          replica.schedule(kGlobalBatch),
                          replica.schedule(rest > 0 ? rest : kGlobalBatch));
    ls::TrainingRequests requests(feed);  // of the loader, some micro-batches ahead
    const std::int64_t micro_batch = replica.batch().micro_batch;
    ls::data::Loader loader(glyphs.train,
                            {.micro_batch = micro_batch},
                            [&](ls::data::LoadRequest& request) { return requests.next(request); });
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const float lr = step < 200 ? 2e-3f : 2e-4f;
      // On a GPU results come a step late.
      for (const ls::StepResult& result :
           replica.train_step(feed.schedule(step), loader, step, lr)) {
        ls::require_finite(result);
        if (job.rank() == 0 && (result.step + 1) % 50 == 0)
          std::printf("step %3d  loss %.4f  accuracy %.3f\n",
                      int(result.step + 1),
                      result.loss,
                      result.accuracy);
      }
    }
    for (const ls::StepResult& result : replica.finish_steps()) ls::require_finite(result);

    const ls::Schedule evaluation = replica.evaluation_schedule(held_out);
    ls::EvaluationFeed held_out_requests(evaluation);
    ls::data::Loader validation(glyphs.validation,
                                {.micro_batch = micro_batch},
                                [&](auto& request) { return held_out_requests.next(request); });
    const ls::StepResult result = replica.evaluate(evaluation, validation);
    if (job.rank() == 0) std::printf("held-out accuracy %.4f\n", result.accuracy);
  });
}
