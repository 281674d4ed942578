# SPDX-License-Identifier: Apache-2.0
"""Seeds of the parsers of what a run has written into its folder."""

from seeds.corpus import put


def write_run_progress() -> None:
    for name, text in {
            "whole": '{"wall_s":12.5,"steps":100}', "no_number": '{"wall_s":"x"}', "null": '{"wall_s":null}',
            "list": "[1]", "deep": "[" * 400, "too_large": '{"wall_s":1e999}', "empty": "", "cut": '{"wall_s":1',
            "duplicate": '{"wall_s":1,"wall_s":2}', "negative": '{"wall_s":-1}'}.items():
        put("run_progress", name, text)


def write_metrics_file() -> None:
    for name, text in {
            "whole": '{"step":99,"train_loss":1}\n{"step":100,"val_loss":2}\n{"step":101,"train_loss":3}\n',
            "cut": '{"step":1}\n{"step":2', "no_json": "x\n{}\n[]\n", "fractional": '{"step":1.5}\n',
            "huge": '{"step":18446744073709551615}\n{"step":-9223372036854775808}\n', "crlf": '{"step":1}\r\n',
            "duplicate": '{"step":1,"step":200}\n', "nul": '{"step":1}\0\n', "empty_lines": "\n\n"}.items():
        put("metrics_file", name, text)


def write_run_record() -> None:
    steps = "".join(f'{{"step":{i},"loss":{2 / i},"accuracy":0.5,"lr":0.1,"step_ms":4,"data_ms":1}}\n' for i in range(1, 9))
    rollback = '{"step":2,"rollback":"c/2","spike_step":4,"loss":90,"mean":1,"spread":1}\n{"step":3,"loss":1}\n'
    for name, text in {
            "whole": "%%config.toml\nmodel = 'mlp'\nhidden = [64, 64]\n%%environment.json\n{\"host\":\"a\",\"ranks\":2}"
                     "%%history.jsonl\n{\"time\":1790000000,\"step\":0,\"host\":\"a\"}\n{\"step\":4,\"checkpoint\":\"c/4\"}\n"
                     f"%%metrics.jsonl\n{steps}" '{"step":8,"val_loss":0.5,"val_accuracy":0.5,"seconds":1}\n'
                     '{"step":8,"checkpoint":"c/8","seconds":1,"stall_ms":2,"error":""}\n'
                     '%%summary.json\n{"steps":8,"slowest_rank":1,"slowest_rank_score":1.5,"ledger":[{"rank":0,"seconds":3,'
                     '"data":1,"forward":2},{"rank":1,"seconds":3,"forward":3}],"advice":[{"cause":"data_wait","text":"t",'
                     '"evidence":"e","remedy":"r","gain":0.4}],"memory":{"parameters":12},"noise_scale_words":"w","gpus":[{"rank":0}]}'
                     '%%memory.json\n{"live_bytes":[1,2,1],"nodes":["a","b","c"]}',
            "running": f'%%metrics.jsonl\n{steps}{{"step":9,"lo', "rollback": f"%%metrics.jsonl\n{steps}{rollback}",
            "goes_back": f"%%metrics.jsonl\n{steps}{steps}", "nan": '%%metrics.jsonl\n{"step":1,"loss":NaN}\n{"step":2,"loss":-inf}\n',
            "extremes": '%%metrics.jsonl\n{"step":1,"loss":1e60}\n{"step":999999999999999,"loss":-1e60}\n',
            "tiny": '%%metrics.jsonl\n{"step":1,"loss":5e-324,"lr":1e-60}\n{"step":3,"loss":1e-320,"lr":1e60}\n',
            "mixed": f"%%metrics.jsonl\n{steps}rank 1 of 2\n{steps}", "empty": "", "no_metrics": "%%config.toml\nlr = 1\n",
            "newer": '%%metrics.jsonl\n{"step":1,"format":2}\n', "html": "%%config.toml\nmodel = '<script>'\n%%metrics.jsonl\n",
            "damaged": "%%metrics.jsonl\n%%summary.json\n{%%environment.json\n[]%%history.jsonl\nx\n{}\n%%memory.json\n{}",
            "other_types": '%%metrics.jsonl\n{"step":1,"loss":[1],"lr":"x"}\n%%summary.json\n{"ledger":[1,{"data":-1}],"advice":[1],'
                           '"memory":{"a":"b"},"gpus":[1,{"busy":{"mean":1}}],"slowest_rank":1e300}',
            "evaluations_go_back": '%%metrics.jsonl\n{"step":8,"val_loss":1}\n{"step":2,"val_loss":2}\n',
            "two": f"%%config.toml\nlr = 1\nmodel = 'a'\n%%metrics.jsonl\n{steps}" '%%environment.json\n{"host":"a"}%%second\n'
                   f"%%config.toml\nlr = 2\nmomentum = 0.9\n%%metrics.jsonl\n{steps}" '%%environment.json\n{"host":"<b>"}',
            "zeros": f"%%metrics.jsonl\n{steps}" + "\0" * 99}.items():
        put("run_record", name, text)


def write() -> None:
    write_run_progress()
    write_metrics_file()
    write_run_record()
