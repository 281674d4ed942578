// SPDX-License-Identifier: Apache-2.0
// A convolutional network on MNIST, data-parallel:  mpirun -np 2 mnist FOLDER
#include <cstdio>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER_WITH_MNIST\n", argv[0]);
    return 2;
  }
  return ls::run_job(argc, argv, [&](ls::Job& job) {
    auto model = [](ls::Builder& nn, ls::Value x) {  // x: [N, 28, 28, 1]
      for (int channels : {32, 64}) {
        x = nn.conv2d(x, {.out_channels = channels, .kernel = 3, .padding = 1, .bias = false});
        x = nn.max_pool2d(nn.relu(nn.batch_norm(x)), {.kernel = 2});
      }
      return nn.linear(nn.flatten(x), {.out_features = 10});
    };
    ls::Trainer trainer(job,
                        model,
                        ls::softmax_cross_entropy,
                        {.global_batch = 256,
                         .epochs = 2,
                         .optimizer = ls::Sgd{.lr = 0.1f, .momentum = 0.9f},
                         .lr_schedule = {.kind = ls::LrSchedule::Kind::cosine}});
    ls::Console console(ls::console_kind());
    ls::Progress progress(console);
    trainer.add_observer(progress);
    trainer.fit(ls::data::mnist(argv[1]));
    if (job.rank() == 0) trainer.save_weights("mnist.safetensors");
  });
}
