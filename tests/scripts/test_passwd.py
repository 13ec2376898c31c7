"""The passwd and group files that an init container writes."""

import pytest

from scripts.jobs import MakeJob
from scripts.pods import SHELLS, UNKNOWN_UID

PASSWD = """root:x:0:0:the boss:/nowhere:/bin/zsh
daemon:*:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bireme:x:54321:1:somebody else:/:/bin/false
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
+::::::
last:x:2000:2000:no newline:/:/bin/sh"""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("uid", "first", "last"),
    [
        (0, "root:*:0:0:the boss:/mnt/work:/bin/sh", "bireme:*:0:0:bireme:/mnt/work:/bin/sh"),
        (
            UNKNOWN_UID,
            "root:x:0:0:the boss:/nowhere:/bin/zsh",
            "bireme:*:54321:54321:bireme:/mnt/work:/bin/sh",
        ),
    ],
    ids=["root", "unknown-uid"],
)
def test_user_gets_an_entry_that_sshd_accepts(
    make_job: MakeJob, shell: str, uid: int, first: str, last: str
) -> None:
    pod = make_job(shell, uid, workers=0).launcher
    (pod.folder / "etc/passwd").write_text(PASSWD)
    (pod.folder / "etc/group").write_text("root:x:0:\nbireme4242:x:4242:\nusers:x:100:")
    pod.make_user()
    image = PASSWD.splitlines()
    lines = (pod.volume("etc") / "passwd").read_text().splitlines()
    assert lines == [first, image[1], image[3], image[4], image[5], last]
    assert (pod.volume("etc") / "group").read_text().splitlines() == [
        "root:x:0:",
        "users:x:100:",
        f"bireme{uid}:x:{uid}:bireme",
        "bireme4242:x:4242:bireme",
    ]
    assert (pod.volume("etc") / "passwd").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("shell", "kept"), [("/bin/bash", "/bin/bash"), ("/opt/bash", "/bin/sh")])
def test_a_shell_that_open_mpi_knows_is_kept(make_job: MakeJob, shell: str, kept: str) -> None:
    pod = make_job(workers=0).launcher
    (pod.folder / "etc/passwd").write_text(f"root:x:0:0::/:{shell}\n")
    pod.make_user()
    assert (pod.volume("etc") / "passwd").read_text().splitlines()[0] == f"root:*:0:0::/:{kept}"


def test_a_home_that_is_not_there_becomes_the_root_directory(make_job: MakeJob) -> None:
    pod = make_job(uid=UNKNOWN_UID, workers=0).launcher
    pod.start("/bin/sh", "/mnt/bireme/passwd", "/mnt/etc", env={"HOME": "/nowhere"}).ok()
    assert (pod.volume("etc") / "passwd").read_text().endswith("bireme:*:54321:54321:bireme:/:/bin/sh\n")
