"""A DSSE envelope that holds its payload twice"""

from pathlib import Path

from shared import answer


def probe() -> str:
    from dpaudit.sign import read_envelope

    path = Path("a.json.dsse")
    path.write_text('{"payload": "checked", "payload": "signed"}')
    read = "read: the last of both, {!r}"
    return answer(lambda: read.format(read_envelope(path)["payload"]), most=60)
