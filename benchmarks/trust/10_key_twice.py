"""A DSSE envelope that holds its payload twice"""

from pathlib import Path


def probe() -> str:
    import dpaudit
    from dpaudit.sign import read_envelope

    path = Path("a.json.dsse")
    path.write_text('{"payload": "checked", "payload": "signed"}')
    try:
        return f"read: the last of both, {read_envelope(path)['payload']!r}"
    except dpaudit.DpauditError as error:
        return f"refused: {str(error)[:60]}"
