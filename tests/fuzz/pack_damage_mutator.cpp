// SPDX-License-Identifier: Apache-2.0
// Mutations of the target pack_damage: whole damages come, go and change a field. Several of one
// input like to meet at one place, as bits that cancel each other in a sum would have to.
#include "tests/fuzz/mutation.h"
#include "tests/fuzz/pack_damage.h"

namespace {

using namespace lockstep::fuzz;

PackDamage any_damage(const std::vector<PackDamage>& others, Random& random) {
  PackDamage damage{};
  // Most of what changes the size, header or index is refused at once.
  damage.kind = std::uint8_t(random.below(random.one_in(4) ? PackDamage::kinds : PackDamage::cut));
  damage.value = std::uint8_t(random.one_in(2) ? 7 : random.next());
  damage.at = std::uint16_t(random.next());
  if (!others.empty() && random.one_in(2))
    damage.at = std::uint16_t(random.pick(others).at + random.below(512));
  constexpr std::uint16_t kCounts[] = {1, 2, 4, 8, 16, 24, 64, 192, 512, 4096};
  damage.count = random.pick(kCounts);
  return damage;
}

Bytes mutate_damages(const Bytes& input, Random& random) {
  if (input.empty()) return {};
  std::vector<PackDamage> damages((input.size() - 1) / sizeof(PackDamage));
  if (!damages.empty())
    std::memcpy(damages.data(), input.data() + 1, damages.size() * sizeof(PackDamage));
  std::uint8_t file = input[0];
  const std::size_t at = random.below(damages.size());
  switch (damages.empty() ? 0 : random.below(5)) {
    case 0:
      damages.push_back(any_damage(damages, random));
      break;
    case 1:
      damages[at] = any_damage(damages, random);
      break;
    case 2:
      damages.erase(damages.begin() + std::ptrdiff_t(at));
      break;
    case 3:
      damages[at].at = std::uint16_t(damages[at].at + random.below(65) - 32);
      break;
    default:
      file = std::uint8_t(random.below(4));
  }
  Bytes result{file};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(damages.data());
  result.insert(result.end(), bytes, bytes + damages.size() * sizeof(PackDamage));
  return result;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t bytes,
                                               std::size_t max,
                                               unsigned int seed) {
  return mutate_half(data, bytes, max, seed, mutate_damages);
}
