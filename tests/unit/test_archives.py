"""Archives are unpacked whole or not at all, and never outside of their folder."""

import io
import tarfile

import pytest

from convs2s_plugin.archives import only_folder, unpack
from convs2s_plugin.errors import UserError

DIRTYPE, SYMTYPE, LNKTYPE, CHRTYPE = (
    kind.decode() for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE)
)


def archive(path, members, mode="w:gz"):
    """An archive of members, name -> content of a file, or another kind of member."""
    with tarfile.open(path, mode) as opened:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                opened.addfile(member, io.BytesIO(content))
            else:
                member.type, member.linkname = content.encode(), "/etc/passwd"
                opened.addfile(member)
    return path


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_unpack(mode, tmp_path):
    members = {"model": DIRTYPE, "model/a.txt": b"one", "model/deep/b.txt": b"two"}
    unpack(archive(tmp_path / "a.tar", members, mode), tmp_path / "new")
    inside = only_folder(tmp_path / "new")
    assert inside == tmp_path / "new" / "model" and only_folder(inside) == inside
    assert (inside / "a.txt").read_bytes() == b"one"
    assert (inside / "deep" / "b.txt").read_bytes() == b"two"


REFUSED = {
    "above": {"a": b"x", "../b": b"x"},
    "absolute": {"/tmp/convs2s_plugin_b": b"x"},
    "link": {"a": b"x", "b": SYMTYPE},
    "hard link": {"b": LNKTYPE},
    "device": {"b": CHRTYPE},
    "twice": {"a": b"x", "./a": b"y"},
    "file as folder": {"a": b"x", "a/b": b"y"},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, tmp_path):
    path = archive(tmp_path / "a.tar", REFUSED[kind])
    with pytest.raises(UserError, match="a.tar (is not|cannot be) unpacked"):
        unpack(path, tmp_path / "new")
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]


def test_damaged(tmp_path):
    path = archive(tmp_path / "a.tar", {"a": bytes(range(256)) * 99})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(path, tmp_path / "new")
    assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]
