"""``convs2s serve``: a page to try models with, and translations over HTTP."""

import argparse
import errno
import logging
import os
import socket
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..checkpoints.folders import split_paths
from ..common.errors import UserError
from ..common.quiet import hidden_messages
from .arguments import (
    MODEL,
    add_number,
    add_preparation,
    add_released,
    add_search,
    add_speed,
    ensemble_paths,
    given,
)
from .plugin import add_user_dir, load_model, use_user_dir

if TYPE_CHECKING:
    from ..translation.translator import Translator

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# Seconds that requests have to finish when the server ends.
PATIENCE = 60
MAX_KILOBYTES, QUEUE = 100, 2000
MAX_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    text = (
        "a trained model, or its folder; several are an ensemble; several --path are shown side by "
        "side"
    )
    names: dict[str, Any] = {"nargs": "+", "action": "append", "metavar": "CHECKPOINT"}
    models = parser.add_mutually_exclusive_group(required=True)
    models.add_argument("--path", help=text, **names)
    add_released(models)
    server = parser.add_argument_group("server")
    text = (
        "address to listen on, which decides who can connect (default: %(default)s, this machine)"
    )
    server.add_argument("--host", default=LOOPBACK[0], metavar="ADDRESS", help=text)
    add_number(server, "--port", "port to listen on; 0 for a free one", 8000, least=0)
    text = "largest size of a request, in kilobytes"
    add_number(server, "--max-kilobytes", text, MAX_KILOBYTES, least=1)
    text = "largest number of lines that wait; further requests are refused"
    add_number(server, "--queue", text, QUEUE, least=1)
    add_preparation(parser)
    add_search(parser)
    add_speed(parser)
    add_user_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM; requests that are being answered are answered first."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"The server needs {' and '.join(missing)}: run `pip install 'convs2s-plugin[serve]'`."
        )
    models = _models(args)
    with _listening(args.host, args.port) as listening:
        use_user_dir(args.user_dir)
        import uvicorn

        from ..serving.app import Limits, Server

        with hidden_messages(logging.INFO):
            translators = _load(models, args)
            about = None if args.model is None else _about(args.model)
            server = Server(translators, Limits(1000 * args.max_kilobytes, args.queue), about)
        # If the server listens on all addresses of the machine, clients use names that it does not
        # know.
        address, port = listening.getsockname()[:2]
        is_any = ip_address(address).is_unspecified
        # In the address of a page, that of IPv6 is in brackets; browsers shorten it.
        name, shortest = (f"[{each}]" if ":" in each else each for each in (args.host, address))
        app = server.app(["*"] if is_any else [*LOOPBACK, name, shortest])
        settings = {"lifespan": "on", "log_config": None, "access_log": False, "ws": "none"}
        config = uvicorn.Config(app, timeout_graceful_shutdown=PATIENCE, **settings)  # type: ignore[arg-type]
        # It reports clients that do not speak HTTP, and those that it disconnects.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        print(f"Open http://{LOOPBACK[0] if is_any else name}:{port}/ (Ctrl-C ends).", flush=True)
        service = uvicorn.Server(config)
        end_in_order = service.handle_exit

        def end(number: int, frame: FrameType | None) -> None:
            if service.should_exit:
                # Whoever asks a second time does not want to wait.
                os._exit(128 + number)
            end_in_order(number, frame)

        service.handle_exit = end  # type: ignore[method-assign,assignment]
        try:
            service.run(sockets=[listening])
        except (KeyboardInterrupt, SystemExit):
            # After a proper end, uvicorn raises the signal that caused it again.
            pass
        if server.is_working:
            # The interpreter would wait for the end of the batch.
            sys.stdout.flush()
            os._exit(1)
    return 0


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        UserError: if it cannot.
    """
    if port > MAX_PORT:
        raise UserError(f"--port is {port}: it must be at most {MAX_PORT}.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        # The text of the error repeats the address.
        taken = error.errno == errno.EADDRINUSE
        reason = os.strerror(errno.EADDRINUSE) if taken else error.strerror or error
        raise UserError(
            f"The server cannot listen on port {port} of {host}: {reason}. Choose another with "
            "--port (0: a free one), or another --host."
        ) from error


def _about(name: str) -> str | None:
    """What people should know about a released model."""
    from ..translation.released import RELEASED, read_manifest

    model = read_manifest(RELEASED).models.get(name)
    return None if model is None else f"{name}: {model.title}. {model.limits}"


def _models(args: argparse.Namespace) -> dict[str, list[str]]:
    """Name of a model -> its checkpoints.

    Raises:
        UserError: if there is no such file, or a model is given twice.
    """
    if args.path is None:
        return {args.model: ensemble_paths(args)}
    if len({tuple(Path(path).resolve() for path in paths) for paths in args.path}) < len(args.path):
        raise UserError("A model is given twice with --path: give each once.")
    # The names of `.` and `..` are those of the folders that they are.
    names = [", ".join(Path(os.path.abspath(path)).name for path in paths) for paths in args.path]
    if len(set(names)) < len(names):
        names = [", ".join(paths) for paths in args.path]
    return {
        name: [one for path in paths for one in split_paths(path)]
        for name, paths in zip(names, args.path)
    }


def _load(models: dict[str, list[str]], args: argparse.Namespace) -> "dict[str, Translator]":
    """Load the models: name -> what translates with it."""
    from ..text.subwords import Tokenized
    from ..translation.text import NOT_PREPARED
    from ..translation.translator import Translator

    options = given(args, MODEL)
    found = {name: Translator(paths, load=load_model, **options) for name, paths in models.items()}
    if not args.raw and any(isinstance(each.text, Tokenized) for each in found.values()):
        print(NOT_PREPARED, file=sys.stderr)
    return found
