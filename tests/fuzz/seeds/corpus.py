# SPDX-License-Identifier: Apache-2.0
"""The folder of the fuzzers' inputs."""
import pathlib

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"


def put(target: str, name: str, content: bytes | str) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    (folder / f"seed_{name}").write_bytes(data)
