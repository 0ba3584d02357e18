"""A running ``convs2s serve``, and requests to it."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

from tests import ROOT
from tests.support.translation import DATA, FIXTURES


class Served:
    """The command with some models of the fixtures, as a context manager.

    Args:
        models: their names.
        arguments: further options.
        data: the folder of the dictionaries; None to find it.
    Attributes:
        address: of the page.
        process: the command.
        returncode: how it must end.
    """

    returncode = 0

    def __init__(self, *models, arguments=("--raw",), data=DATA):
        paths = [part for name in models for part in ("--path", str(FIXTURES / f"{name}.pt"))]
        command = [sys.executable, "-m", "convs2s", "serve", *paths, "--device", "cpu"]
        dictionaries = ["--data", str(data)] if data else []
        self.command = [*command, *dictionaries, "--port", "0", *map(str, arguments)]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        printed = self.process.stdout.readline()
        assert printed.startswith("Open http://"), self.process.stderr.read()
        self.address = printed.split()[1]
        return self

    def __exit__(self, *error):
        self.process.terminate()
        printed = self.process.communicate(timeout=60)
        expected = (self.returncode, "", "")
        assert error != (None, None, None) or (self.process.returncode, *printed) == expected

    def post(self, name, content, kind="application/json", **headers):
        """The status of a request, its answer and the headers of the answer.

        Args:
            name: what is asked, such as ``translate``.
            content: what is sent as JSON; bytes are sent as they are.
            kind: the type of the content.
            headers: further headers.
        """
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        request = urllib.request.Request(
            self.address + name, body, {"Content-Type": kind, **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def translate(self, lines, **more):
        """The translations of some lines, which must succeed."""
        status, answer, _ = self.post("translate", {"lines": lines, **more})
        assert status == 200, answer
        return json.loads(answer)["translations"]
