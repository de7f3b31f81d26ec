"""Runs the real `schedlab` in processes that begin with Python's libraries loaded.

To start Python and to load pandas, SciPy and Plotly takes longer than most of what tests ask of a
command. So one process has loaded them and divides itself for each command: the child gets the
command's words, folder, environment and streams, and is `python -m schedlab` from there on. It is a
process like any other, with its own signals, limits and exit. Only the package itself is imported
by each anew.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading

LIBRARIES = (
    *("numpy", "pandas", "rich.console", "rich.progress", "rich.table", "click", "jinja2"),
    *("scipy.stats", "scipy.optimize", "scikit_posthocs", "statsmodels.stats.api"),
    *("plotly.graph_objects", "plotly.io", "plotly.subplots", "sqlite3", "tomllib"),
)
# Of a command's words, folder and environment; a message of the system's sockets is not longer.
REQUEST_BYTES_MAX = 128 * 1024
ANSWER = array.array("i", [0])


class Divided:
    """The process that has loaded everything, and what runs in its children, one at a time."""

    def __init__(self):
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            # Streams on a pipe, as the children's are: Python looks once what they lead to.
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()

    def close(self):
        self.link.close()
        self.process.communicate()

    def takes(self, environment):
        """Whether Python would begin in this environment as this process began."""
        return all(
            environment.get(name) == os.environ.get(name)
            for name in {*environment, *os.environ}
            if name.startswith("PYTHON")
        )

    def run(self, words, folder, environment, timeout_s):
        """What `subprocess.run` gives for `python -m schedlab` with these words."""
        request = json.dumps([words, str(folder), environment]).encode()
        assert len(request) < REQUEST_BYTES_MAX
        outputs = [os.pipe(), os.pipe()]
        socket.send_fds(self.link, [request], [writes for _, writes in outputs])
        for _, writes in outputs:
            os.close(writes)
        texts = ["", ""]
        readers = [
            threading.Thread(target=_read, args=(texts, number, reads), daemon=True)
            for number, (reads, _) in enumerate(outputs)
        ]
        for reader in readers:
            reader.start()
        child = self._answer()
        late = threading.Event()

        def end():
            late.set()
            os.kill(child, signal.SIGKILL)

        killer = threading.Timer(timeout_s, end)
        killer.start()
        try:
            code = os.waitstatus_to_exitcode(self._answer())
            for reader in readers:
                reader.join(timeout_s)
        finally:
            killer.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(words, timeout_s, *texts)
        return subprocess.CompletedProcess(words, code, *texts)

    def _answer(self):
        answer = self.link.recv(ANSWER.itemsize)
        assert answer, self.process.communicate()[1].decode()
        return array.array("i", answer)[0]


def _read(texts, number, file):
    with os.fdopen(file, encoding="utf-8") as stream:
        texts[number] = stream.read()


def _serve(link):
    """Divides for each request. Returns in the child only, with what it is to run."""
    for name in LIBRARIES:
        importlib.import_module(name)
    # What is here stays: collecting it in a child would only copy its memory.
    gc.freeze()
    while True:
        request, files, *_ = socket.recv_fds(link, REQUEST_BYTES_MAX, 2)
        if not request:
            os._exit(0)
        child = os.fork()
        if not child:
            link.close()
            return json.loads(request), files
        for file in files:
            os.close(file)
        with contextlib.suppress(BrokenPipeError):
            link.send(array.array("i", [child]))
            link.send(array.array("i", [os.waitpid(child, 0)[1]]))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    (words, folder, environment), files = _serve(socket.socket(fileno=int(sys.argv[1])))
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # `python -m` has the folder in which it runs in front, a script its own.
    sys.path[0] = folder
    sys.argv = ["schedlab", *words]
    try:
        runpy.run_module("schedlab", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        # Python's own end, but that it would take down the libraries, and so copy all their memory.
        atexit._run_exitfuncs()
        os._exit(error.code)
