# SPDX-License-Identifier: Apache-2.0
"""Seeds of tokenizer.json, and of texts that are cut into tokens."""
import json

from seeds.corpus import put

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
NO_PATTERN = {**LEVEL, "use_regex": False}
DIGITS = {"type": "Digits", "individual_digits": True}
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLIT = {"type": "Split", "pattern": {"Regex": LLAMA}, "behavior": "Isolated", "invert": False}
ADDED = {"id": 8, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": True}
VOCABULARY = {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġa": 4, "Ã": 5, "©": 6, "Ã©": 7}
MODEL = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
         "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
         "ignore_merges": False, "vocab": VOCABULARY, "merges": ["a b", "Ġ a", ["Ã", "©"]]}
GOOD = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [ADDED],
        "normalizer": None, "pre_tokenizer": LEVEL, "post_processor": LEVEL, "decoder": LEVEL,
        "model": MODEL}


def model(**changes):
    return {**GOOD, "model": {**MODEL, **changes}}


def cut(*parts, **changes):
    return {**model(**changes), "pre_tokenizer": {"type": "Sequence", "pretokenizers": parts}}


def write() -> None:
    for name, value in {
            "good": GOOD, "sequence": cut(LEVEL),
            "digits": cut(DIGITS, LEVEL), "llama": cut(SPLIT, NO_PATTERN, ignore_merges=True),
            "qwen": cut({**SPLIT, "pattern": {"Regex": LLAMA.replace("{1,3}", "")}}, NO_PATTERN),
            "split_unknown": cut({**SPLIT, "pattern": {"Regex": "a|b"}}, NO_PATTERN),
            "split_text": cut({**SPLIT, "pattern": {"String": " "}}, NO_PATTERN),
            "split_removed": cut({**SPLIT, "behavior": "Removed"}, NO_PATTERN),
            "split_inverted": cut({**SPLIT, "behavior": "Removed", "invert": True}, NO_PATTERN),
            "split_twice": cut(SPLIT, LEVEL), "no_parts": cut(), "three_parts": cut(DIGITS, SPLIT, NO_PATTERN),
            "prefix": {**GOOD, "pre_tokenizer": {**LEVEL, "add_prefix_space": True}},
            "normalized": {**GOOD, "added_tokens": [ADDED, {**ADDED, "id": 9, "content": "東", "normalized": True}]},
            "added_gap": {**GOOD, "added_tokens": [{**ADDED, "id": 60000}]},
            "added_far": {**GOOD, "added_tokens": [{**ADDED, "id": 2**31}]},
            "added_twice": {**GOOD, "added_tokens": [ADDED, {**ADDED, "id": 9}]},
            "added_over": {**GOOD, "added_tokens": [{**ADDED, "id": 0}]},
            "added_empty": {**GOOD, "added_tokens": [{**ADDED, "content": ""}]},
            "word_piece": model(type="WordPiece"), "merge_of_none": model(merges=["a c"]),
            "merge_to_none": model(merges=["b a"]), "merge_of_three": model(merges=["a b b"]),
            "twice": model(vocab={**VOCABULARY, "bb": 3}), "negative": model(vocab={"a": -1}),
            "huge": model(vocab={"a": 1e300}), "not_bytes": model(vocab={**VOCABULARY, "東": 8}),
            "empty_token": model(vocab={**VOCABULARY, "": 8})}.items():
        put("tokenizer", name, json.dumps(value, ensure_ascii=False))
    for name, text in {
            "digits": b"\x14a  1 22  x3's", "llama": b"\x28I'LL 12345\r\n\tx!!\n\n  y",
            "qwen": b"\x3c12 'S\n a\xc5\xbf'\xc5\xbf",
            "words": b"\x10to be, or not to be's  that 'll 12ab", "lines": b"\x15one\n\ntwo \n\n three",
            "added": b"\x08x<|e|><|e f|> a b<|e", "spaces": b"\x04a  \n\n \t b\xc2\xa0\xe3\x80\x80c",
            "replaced": b"\x0eab\xe6\x9dc\xff\xf0\x9f\x99 \xed\xa0\x80", "refused": b"\x0cab\xe6\x9d"}.items():
        put("token_text", name, text)
