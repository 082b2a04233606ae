"""A certificate replaced while its checker runs: which one `sign` signs"""

import base64
import json
import shutil
from pathlib import Path

from shared import certificate, swapped


def probe() -> str:
    kept = certificate("dp_gd")
    shutil.copy(kept, "a.json")
    lie = json.loads(kept.read_text())
    lie["predicate"]["claims"][0]["verdict"] = "certified"
    Path("lie.json").write_text(json.dumps(lie))
    swapped("sign", "a.json", "--new-key", "k.pem")
    if not Path("a.json.dsse").exists():
        return "nothing signed"
    payload = json.loads(base64.b64decode(json.loads(Path("a.json.dsse").read_text())["payload"]))
    return "the forgery is signed" if payload == lie else "signed: the bytes that were checked"
