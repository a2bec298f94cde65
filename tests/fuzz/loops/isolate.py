"""Run something that may crash or hang, in a forked process. In: a function. Out: what it sent, and how it ended."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Send = Callable[[Any], None]
PATIENCE = 10


def _worked(process: int) -> float:
    """The seconds that a process has computed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no such file system
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def isolated(work: Callable[[Send], None], seconds: float) -> tuple[list[Any], str]:
    """What `work` sent, and "" if it came to its end, else what happened.

    `seconds`: from one message to the next, of processor time (other work may be beside it) or PATIENCE times as many.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in this process: the child needs none of them
        child = os.fork()
    if child == 0:
        os.close(read)
        faulthandler.disable()  # the parent tells
        code = 1
        try:
            with os.fdopen(write, "wb") as stream:

                def send(value: Any) -> None:
                    text = pickle.dumps(value)
                    stream.write(len(text).to_bytes(8, "big") + text)
                    stream.flush()

                work(send)
            code = 0
        except BaseException as error:  # the parent tells
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(write)
    sent, raw, hung = [], b"", False
    since, worked = time.monotonic(), _worked(child)
    while True:
        ready, _, _ = select.select([read], [], [], seconds)
        if ready:
            since, worked = time.monotonic(), _worked(child)
        elif _worked(child) - worked < seconds / 2 and time.monotonic() - since < PATIENCE * seconds:
            continue
        else:
            hung = True
            os.kill(child, signal.SIGKILL)
            break
        more = os.read(read, 1 << 16)
        if not more:
            break
        raw += more
    os.close(read)
    _, status = os.waitpid(child, 0)
    while len(raw) >= (end := 8 + int.from_bytes(raw[:8], "big")) > 8:
        sent.append(pickle.loads(raw[8:end]))
        raw = raw[end:]
    if hung:
        return sent, f"hangs ({seconds:.0f} s)"
    if os.WIFSIGNALED(status):
        return sent, f"dies of {signal.Signals(os.WTERMSIG(status)).name}"
    return sent, "" if os.WEXITSTATUS(status) == 0 else "ends with an error"
