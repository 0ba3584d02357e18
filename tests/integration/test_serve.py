"""``convs2s serve``: the command, its answers, its limits and its end."""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor

import psutil
import pytest

from convs2s.cli import main as convs2s
from convs2s.translation.translator import Translator
from tests.support.serving import Served
from tests.support.translation import DATA, FIXTURES, LINES, copied

for name in ("starlette", "uvicorn"):
    pytest.importorskip(name, reason="the extra serve is not installed")

# Seconds for the test with 50 clients; `make endurance` sets more.
SECONDS = float(os.environ.get("CONVS2S_SERVE_SECONDS", "8"))


@pytest.fixture(scope="module")
def served():
    with Served("adl", "convs2s") as started:
        yield started


@pytest.fixture(scope="module")
def translator():
    return Translator(FIXTURES / "adl.pt", data=DATA, raw=True, device="cpu", nbest=3)


def get(address, **headers):
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_translations_of_a_translator(served, translator):
    lines = ["", *LINES[:7], "   ", " ".join(LINES[:9])]
    expected = translator.translate(lines)
    for nbest in (1, 3):
        found = served.translate(lines, nbest=nbest)
        assert [one["source"] for one in found] == lines
        for one, other in zip(found, expected, strict=True):
            best = other.hypotheses[:nbest]
            assert [each["text"] for each in one["nbest"]] == [each.text for each in best]
            scores = [each.score for each in best]
            assert [each["score"] for each in one["nbest"]] == pytest.approx(scores, abs=1e-4)
            assert (one["text"], one["is_cut_off"]) == (other.text, other.is_cut_off)


def test_a_model_by_its_name(served):
    other = Translator(FIXTURES / "convs2s.pt", data=DATA, raw=True, device="cpu")
    found = served.translate(LINES[:5], model="convs2s.pt")
    assert [one["text"] for one in found] == [one.text for one in other.translate(LINES[:5])]
    status, answer, _ = served.post("attention", {"line": LINES[0], "model": "convs2s.pt"})
    assert status == 200 and "Attention of convs2s.pt" in answer


def test_the_attention_to_a_given_target(served, translator):
    target = translator.translate(LINES[1:2])[0].text
    status, answer, _ = served.post("attention", {"line": LINES[0], "target": target})
    data = answer.partition('id="data">')[2].partition("</script>")[0]
    (sentence,) = json.loads(data)["sentences"]
    assert status == 200 and sentence["target"] == [*target.split(), "</s>"]
    expected = translator.attention(LINES[0], target).arrays["source.mean"]
    (mean,) = (one for one in sentence["maps"] if one["name"] == "source.mean")
    assert mean["weights"][0][1] == pytest.approx(expected[1].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "content", "status", "part"),
    [
        ("translate", b"{", 400, "Invalid JSON"),
        ("translate", {"lines": []}, 400, "lines: List should have at least 1 item"),
        ("translate", {"lines": "ein"}, 400, 'send {"lines": ["Zwei Hunde rennen."]}.'),
        ("translate", {"lines": ["ein", 1]}, 400, "lines.1: Input should be a valid string"),
        ("translate", {"lines": ["a"] * 1001}, 400, "at most 1000 items"),
        ("translate", {"lines": ["ein"], "beams": 2}, 400, "beams: Extra inputs"),
        ("translate", {"lines": ["ein"], "nbest": 0}, 400, "nbest: Input should be greater"),
        ("translate", {"lines": ["ein"], "nbest": 6}, 400, "finds 5 translations"),
        ("translate", {"lines": ["a"], "model": "x"}, 400, "has adl.pt, convs2s.pt."),
        ("translate", b'{"lines": ["\\ud800"]}', 400, "send"),
        ("translate", {"lines": ["x" * 100_000]}, 413, "more than 100,000 bytes"),
        # More than the buffers of a connection hold: the client has sent it all before it reads.
        ("translate", {"lines": ["x" * 20_000_000]}, 413, "more than 100,000 bytes"),
        ("attention", {"line": " "}, 400, "There is no attention to an empty line"),
        ("attention", {"line": "ein " * 100}, 400, "tokens"),
        ("attention", {"line": "ein", "target": "one " * 121}, 400, "attention of 121 tokens is"),
        ("attention", {"lines": ["ein"]}, 400, "line: Field required"),
        ("translate", {"lines": ["a\0b"]}, 400, "Text 1 has a NUL character"),
    ],
)
def test_requests_that_are_refused(served, name, content, status, part):
    found, answer, _ = served.post(name, content)
    sentence = json.loads(answer)["error"]
    assert (found, part in sentence) == (status, True), answer
    assert sentence.endswith(".") and "\n" not in sentence


def test_only_json_is_read(served):
    status, answer, _ = served.post("translate", {"lines": ["ein"]}, "text/plain")
    assert status == 415 and "text/plain: send JSON" in answer


def test_no_file_and_no_other_name_is_served(served):
    assert get(served.address)[0] == 200
    for path in ("setup.py", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "page.js"):
        status, answer = get(served.address + path)
        assert status == 404 and "Not Found" in json.loads(answer)["error"]
    assert get(served.address + "translate")[0] == 405
    # A page of another site whose name leads to this address.
    assert get(served.address, Host="elsewhere.example")[0] == 400


def test_clients_that_leave_and_clients_that_talk_nonsense(served):
    port = int(served.address.rstrip("/").rpartition(":")[2])
    body = json.dumps({"lines": LINES[:20]}).encode()
    head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    for text in (head.encode() + body, head.encode() + body[:20], b"\0\xff" * 100, b"GET"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(text)
    assert len(served.translate(LINES[:3])) == 3
    assert served.process.poll() is None


def test_lines_that_wait_have_a_limit():
    with Served("adl", arguments=["--raw", "--queue", 5, "--max-kilobytes", 1]) as served:
        assert len(served.translate(LINES[:5])) == 5
        # It will never fit.
        status, answer, _ = served.post("translate", {"lines": LINES[:6]})
        assert status == 400 and "has 6 lines, but at most 5 may wait" in answer
        assert served.post("translate", {"lines": ["a" * 1000]})[0] == 413
        # Many at once: each is answered or refused.
        with ThreadPoolExecutor(30) as clients:
            asked = [
                clients.submit(served.post, "translate", {"lines": LINES[:4]}) for _ in range(60)
            ]
        refused = [headers for status, _, headers in map(Future.result, asked) if status == 429]
        statuses = [status for status, _, _ in map(Future.result, asked)]
        assert set(statuses) == {200, 429}
        assert {headers["Retry-After"] for headers in refused} == {"1"}
        assert len(served.translate(LINES[:5])) == 5


def test_fifty_clients(translator):
    expected = {line: found.text for line, found in zip(LINES, translator.translate(LINES))}
    wrong: list[object] = []
    counts = [0] * 50
    memory: list[int] = []

    def client(number, connection):
        numbers = random.Random(number)
        while time.monotonic() < end:
            lines = numbers.choices(LINES, k=numbers.choice((1, 1, 2, 5)))
            body = json.dumps({"lines": lines})
            connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            found = json.loads(answer.read())
            if answer.status != 200:
                wrong.append(found)
            elif [one["text"] for one in found["translations"]] != [expected[x] for x in lines]:
                wrong.append(lines)
            counts[number] += 1

    with Served("adl") as served:
        process = psutil.Process(served.process.pid)
        host = served.address.removeprefix("http://").rstrip("/")
        served.translate(LINES)
        end = time.monotonic() + SECONDS
        threads = [
            threading.Thread(target=client, args=(i, http.client.HTTPConnection(host, timeout=60)))
            for i in range(50)
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(SECONDS / 20)
            memory.append(process.memory_info().rss)
        for thread in threads:
            thread.join()
    assert not wrong and min(counts) > 0
    # In the second half of the time, memory stays what it is after the first quarter.
    assert max(memory[10:]) < 1.1 * max(memory[:5])
    print(f"{sum(counts):,} requests in {SECONDS} seconds; MB: {[m >> 20 for m in memory]}")


def test_lines_of_a_client_that_has_left_are_not_translated():
    many = ["--raw", "--queue", 20_000, "--max-kilobytes", 1000]
    with Served("adl", arguments=many) as served:
        process = psutil.Process(served.process.pid)

        def used():
            return process.cpu_times().user

        served.translate(LINES)
        start = used()
        served.translate(LINES * 100)
        needed = used() - start
        port = int(served.address.rstrip("/").rpartition(":")[2])
        body = json.dumps({"lines": LINES * 100}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        start = used()
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", port)) as client:
                before = used()
                client.sendall(head.encode() + body)
                while used() < before + 0.02:
                    time.sleep(0.001)
        assert len(served.translate(LINES)) == len(LINES)
        # At most a part of the lines of each was being translated when it left.
        assert used() - start < 5 * needed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(number):
    """It does not wait for a client that never sends the rest."""
    with Served("adl") as served:
        port = int(served.address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
            client.sendall(f"{head}Content-Type: application/json\r\n\r\n[".encode())
            time.sleep(0.2)
            served.process.send_signal(number)
            time.sleep(0.5)
            assert served.process.poll() is None
            served.process.send_signal(number)
            served.returncode = 128 + number
            assert served.process.wait(20) == served.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_answers_what_has_been_asked(number, translator):
    expected = [found.text for found in translator.translate(LINES)]
    many = ["--raw", "--queue", 10_000, "--max-kilobytes", 1000]
    with Served("adl", arguments=many) as served, ThreadPoolExecutor(8) as clients:
        process = psutil.Process(served.process.pid)
        start = process.cpu_times().user
        asked = [clients.submit(served.translate, LINES * 120) for _ in range(8)]
        while process.cpu_times().user < start + 0.5:
            time.sleep(0.01)
        served.process.send_signal(number)
        assert not all(each.done() for each in asked)
        for each in asked:
            assert [one["text"] for one in each.result()] == expected * 120
        assert served.process.wait(60) == 0
        with pytest.raises(urllib.error.URLError):
            served.translate(LINES[:1])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--port", "70000"], "--port is 70000: it must be at most 65535"),
        (["--port", "-1"], "--port is -1"),
        (["--host", "no.such.host.invalid"], "cannot listen on port 8000 of no.such.host.invalid"),
        (
            ["--path", str(FIXTURES / "data" / ".." / "adl.pt")],
            "A model is given twice with --path",
        ),
        (["--path", "missing.pt"], "missing.pt"),
    ],
)
def test_what_cannot_be_served(arguments, part, capsys):
    command = ["serve", "--path", str(FIXTURES / "adl.pt"), "--data", str(DATA), "--raw"]
    port = [] if "--port" in arguments or "--host" in arguments else ["--port", "0"]
    assert convs2s([*command, *port, *arguments]) == 2
    errors = capsys.readouterr().err
    assert part in errors and errors.count("\n") == 1


def test_an_address_of_ipv6_in_brackets():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with Served("adl", arguments=["--raw", "--host", "0:0:0:0:0:0:0:1"]) as served:
        assert served.address.startswith("http://[0:0:0:0:0:0:0:1]:")
        assert get(served.address)[0] == 200
        assert get(served.address, Host="[::1]")[0] == 200
        assert get(served.address, Host="[::2]")[0] == 400


def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path = str(FIXTURES / "adl.pt")
        assert convs2s(["serve", "--path", path, "--port", str(port)]) == 2
    assert f"cannot listen on port {port} of 127.0.0.1: Address" in capsys.readouterr().err


def test_raw_text_of_a_prepared_model(tmp_path):
    folder = copied("adl", tmp_path / "prepared")
    with Served(arguments=["--path", folder / "data-bin" / ".."]) as served:
        assert '"name": "prepared"' in get(served.address)[1]
        (found,) = served.translate(["  " + LINES[0].upper()])
        (other,) = served.translate([LINES[0]])
        assert found["text"] == other["text"] != ""


def test_a_released_model(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CONVS2S_MODELS", raising=False)
    with Served(arguments=["--model", "pronunciation"], data=None) as served:
        (found,) = served.translate(["kor 가감"], model="pronunciation")
    assert found["text"] == "k a̠ ɡ a̠ m"
