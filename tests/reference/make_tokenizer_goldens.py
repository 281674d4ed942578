#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer_goldens: what Hugging Face's tokenizers makes of texts.

make_tokenizer_goldens.py

  corpus.txt            what is trained on
  tokenizer.json        what BpeTrainer makes of it, as that library writes it; its added tokens
                        hold a space, and one that begins another
  vocab.json merges.txt the same model as GPT-2's two files
  parts.json            what the library writes of the pre-tokenizers of SmolLM (digits), Llama 3 and
                        Qwen 2, and of Llama 3's post-processor
  cases.json            texts, and their tokens with each of the two; how many bytes the words have that
                        each pre-tokenizer makes of what lies between the added tokens; and the tokens
                        with Llama 3's where ignore_merges is set and the last LEFT_OUT merges are missing

Written with tokenizers 0.23.3.
"""
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data/tokenizer_goldens"
END = "<|endoftext|>"
VOCABULARY = 700
LEFT_OUT = 150

LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def split_by(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PARTS = {"digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                            pre_tokenizers.ByteLevel(add_prefix_space=False)]),
         "llama3": split_by(LLAMA), "qwen2": split_by(LLAMA.replace("{1,3}", ""))}

WORDS = ("the of and to in is that it was for on are as with his they at be this from have or by "
         "one had not but what all were when we there can an your which their said if do will each "
         "about how up out them then she many some so these would other into has more two like him "
         "see time could no make than first been its who now people my made over did down only way "
         "find use may water long little very after words called just where most know aaaaaa aaa "
         "Straße naïve café Ωmega привет мир 東京 大阪 नमस्ते Việt 1999 2024 3.14159 x1 y2").split()
TAILS = ("", "", "", "", ",", ".", "!", "?", ";", "'s", "'t", "n't", "'re", "'ll", " —", ")", "...")


def corpus():
    chance = random.Random(1)
    lines = []
    for _ in range(220):
        line = " ".join(chance.choice(WORDS) + chance.choice(TAILS) for _ in range(chance.randint(3, 12)))
        lines.append(" " * chance.choice((0, 0, 0, 2, 4)) + line)
    return "\n".join(lines) + "\n"


CASES = (
    "", " ", "  ", "\n", " \n", "\n\n\n", "a", " a", "  a", "a ", "a  ", "the quick brown fox",
    "I'm you're we've they'll he'd it's don't 'tis 'Tis '' 's 'S 're'ALL 'lls rock'n'roll",
    "tabs\tand\t\tmore\t \tof  them   \n  indented\n\tline\r\nwindows\r\n\r\nend  ",
    "numbers 1234567890 3.14159 1,000,000 x1y2 ½ ² Ⅷ ٣٤ 一二三",
    "signs !@#$%^&*()_+-=[]{}|;:\",.<>/?`~ ¿¡ «» “” …—– €£¥",
    "Straße NAÏVE café cafe\u0301 Ωmega ﬁ ǅ ß ı İ ſ",
    "привет, мир! Ελληνικά עברית العربية हिन्दी ไทย 한국어 日本語 中文。第二句！",
    "emoji 🙂🙃 👨‍👩‍👧‍👦 🏳️‍🌈 1️⃣ ❤️ and flags 🇩🇪🇯🇵",
    "spaces\u00a0no-break\u2003em\u2009thin\u3000wide\u2028line\u2029paragraph\u0085next\u1680ogham",
    "not spaces\u180e\u200b\u2060\ufeff soft\u00adhyphen",
    "controls \x00\x01\x02\x1b\x1c\x1d\x1e\x1f\x7f\x80\x9f end",
    "ends of planes \U0001ffff \U00020000 \U0002a6df \U000e0041 \U0010ffff \ufffd \uffff",
    "letters of Unicode 16 \u1c89\ua7cb\U000105c0\U00010d4a and later \U000323b0 \u20c1",
    "a" * 70 + " " + "ab" * 60 + " " + "aaa" * 33, " " * 100 + "x" + "\n" * 50 + "y",
    f"one{END}two {END} three{END}{END}", "<|end <|endoftext <|endoftext|", "<|mark|><|mark more|> <|mark",
    "x<|mark  more|>y<|mark more|>z", "don<|mark|>'t it'<|mark|>s", "CamelCase snake_case kebab-case",
    "def f(x):\n    return x ** 2  # squares\n\n\nif __name__ == '__main__':\n\tf(2)\n",
    "http://example.org/a?b=c&d=e#f mail@example.org C:\\path\\to", "zwölf Boxkämpfer jagen Viktor quer",
)


LINES = (
    "I'LL DON'T You'Re WE'Ve 'M'D it'\u017f o'\u017fx 'lL 'Ll 'sS 'xS ''s",
    "1 12 123 1234 12345678 x1234y \u0661\u0662\u0663\u0664 \u00bd\u00b2\u2167\u2168 1,234.567e-10 (12) -3",
    "a\nb\n\nc\r\nd\r\n\r\n  e \n f\n \n\tg  \n", "x!\n y!!\r\n\r\n z ?\n\n\n 1!\n2", "\r\r\n\n \r \n",
    "\ttab \u00a0nbsp\u3000wide _under .dot \u0301mark \n\u0301mark .\u0301x \u200bzero",
    "   three  two one\n    indented\n\n\n   ", " \n", "\n ", "!\n", "!\n ", "! \n", "1\n", " 1", "  1", "1 ", "a 1  b",
    "\U00011de0\U00011de9 \U00016ff4a x\U00016ff6!\U00011de1\U00011de2", "if (x):\n\treturn x**2;\r\n}\n// 100%\n",
)


def part_tokenizer(part):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = part
    return tokenizer


def with_parts(model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def random_text(chance):
    """Characters of all kinds side by side."""
    kinds = ("ab c", "'stmdrevl ", " \t\n\u00a0\u3000", "01\u00bd\u0663", ".,!<|>", "éßЖ東ü",
             "🙂\u0301\u200d")
    return "".join(chance.choice(chance.choice(kinds)) for _ in range(chance.randint(1, 60)))


def line_text(chance):
    """What Llama 3's pattern looks at: line breaks of both kinds, capitals, and digits."""
    kinds = ("\n", "\r\n", " ", "\t\u00a0", "'", "sStTmMdD\u017f", "rReEvVlL", "123", "\u0663\u00bd",
             "!?", "é東Ж\u0301", "\U00011de0\U00016ff4")
    return "".join(chance.choice(chance.choice(kinds)) for _ in range(chance.randint(8, 50)))


def word_bytes(part, text):
    return [len(text[begin:end].encode()) for _, (begin, end) in part.pre_tokenize_str(text)]


def words_of(part, text, added):
    """Of text without added tokens; else nothing."""
    return [] if any(token in text for token in added) else word_bytes(part, text)


def with_llamas_parts(trained):
    """As Llama 3's file: its token before a text is none of encode(add_special_tokens=False)."""
    file = json.loads(trained.to_str())
    file["model"]["ignore_merges"] = True
    file["model"]["merges"] = file["model"]["merges"][:-LEFT_OUT]
    result = Tokenizer.from_str(json.dumps(file))
    result.pre_tokenizer = PARTS["llama3"]
    begin = processors.TemplateProcessing(single="<|mark|> $A",
                                          special_tokens=[("<|mark|>", trained.token_to_id("<|mark|>"))])
    result.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), begin])
    return result


def main():
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "corpus.txt").write_text(corpus())
    trained = with_parts(models.BPE())
    trained.train_from_iterator(
        [corpus()], trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False,
                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    trained.model.save(str(FOLDER))
    vocabulary = json.loads((FOLDER / "vocab.json").read_text())
    vocabulary[END] = len(vocabulary)
    (FOLDER / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    trained.add_special_tokens([END, "<|mark|>", "<|mark more|>"])
    trained.save(str(FOLDER / "tokenizer.json"))
    plain = with_parts(models.BPE.from_file(str(FOLDER / "vocab.json"), str(FOLDER / "merges.txt")))
    plain.add_special_tokens([END])
    spaced = Tokenizer.from_str(trained.to_str())
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    spaced.save(str(FOLDER / "spaced.json"))
    chance = random.Random(2)
    texts = CASES + tuple(random_text(chance) for _ in range(60)) + LINES
    texts += tuple(line_text(chance) for _ in range(40))
    llama = with_llamas_parts(trained)
    parts = json.loads(llama.to_str())
    (FOLDER / "parts.json").write_text(json.dumps(
        {**{name: json.loads(part_tokenizer(part).to_str())["pre_tokenizer"] for name, part in PARTS.items()},
         "post_processor": parts["post_processor"]}, indent=1) + "\n")
    added = [END, "<|mark|>", "<|mark more|>"]
    cases = [{"text": text, "tokenizer": trained.encode(text).ids, "spaced": spaced.encode(text).ids,
              "vocabulary": plain.encode(text).ids,
              **{name: words_of(part, text, added) for name, part in PARTS.items()},
              "ignored": llama.encode(text, add_special_tokens=False).ids} for text in texts]
    (FOLDER / "cases.json").write_text(
        "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
