// SPDX-License-Identifier: Apache-2.0
// What a trained model says of images: FOLDER is a run of lockstep train, or of Trainer::save().
#include <algorithm>
#include <cstdio>
#include <lockstep/lockstep.h>

namespace ls = lockstep;

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s FOLDER MODEL IMAGE...\n", argv[0]);
    return 2;
  }
  return ls::run_job(argc, argv, [&](ls::Job& job) {
    const std::string folder = argv[1];
    const auto record = ls::io::read_preprocessing(folder + "/preprocessing.json");
    const auto model = ls::nn::make_model({.name = argv[2], .outputs = record.samples.classes});
    ls::Predictor predictor(job.backend(), model, folder);
    for (int i = 3; i < argc; ++i) {
      const std::vector<float> probabilities = predictor.predict_image(argv[i]);
      const auto best = std::max_element(probabilities.begin(), probabilities.end());
      std::printf("%s  %s %.4f\n",
                  argv[i],
                  predictor.name(std::size_t(best - probabilities.begin())).c_str(),
                  double(*best));
    }
  });
}
