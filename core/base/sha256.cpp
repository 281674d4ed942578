// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

/// OpenSSL can refuse an algorithm (a restricted provider), which is not a bug of ours.
void check_digest(int result) {
  if (result != 1)
    throw EnvironmentError("OpenSSL cannot compute SHA-256",
                           "memory is short, or OpenSSL's configuration leaves SHA-256 out: see "
                           "openssl list -digest-algorithms");
}

[[noreturn]] void no_memory() {
  throw OutOfMemory("no memory for OpenSSL, which computes SHA-256", "start fewer ranks a host");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Context Sha256::make_context() {
  // OpenSSL 3.0 continues without what it could not allocate at its start, and crashes later.
  if (OSSL_LIB_CTX_get0_global_default() == nullptr) no_memory();
  Context context(EVP_MD_CTX_new());
  if (!context) no_memory();
  return context;
}

Sha256::Sha256() : context_(make_context()) {
  check_digest(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  check_digest(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  const Context copy = make_context();
  check_digest(EVP_MD_CTX_copy_ex(copy.get(), context_.get()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  check_digest(EVP_DigestFinal_ex(copy.get(), digest, &length));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

}  // namespace lockstep
