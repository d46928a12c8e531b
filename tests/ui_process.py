"""`pykafka ui` in a process of its own, as a user starts it, and what it answers."""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import urlencode

TOKEN = "s3cret"


class Served:
    def __init__(self, url):
        self.url = url.partition("/#")[0].rstrip("/")

    def get(self, path, token=TOKEN, headers=None, **parameters):
        """The answer's status and its JSON; of a refusal its text."""
        asked = urllib.request.Request(f"{self.url}{path}?{urlencode(parameters)}", headers=headers or {})
        return self._answer(asked, token)

    def post(self, path, document, token=TOKEN, kind="application/json", headers=None):
        body = json.dumps(document).encode()
        asked = urllib.request.Request(self.url + path, body, {"Content-Type": kind, **(headers or {})})
        return self._answer(asked, token)

    def _answer(self, asked, token):
        if token is not None:
            asked.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def page(self, **state):
        return f"{self.url}/#{urlencode({'token': TOKEN, **state})}"


@contextlib.contextmanager
def serving(bootstrap_servers, token_file, *words):
    command = [sys.executable, "-m", "kafkasource", "ui", "-b", bootstrap_servers, "--port", "0", "--json", *words]
    with subprocess.Popen([*command, "--token-file", str(token_file)], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Served(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
