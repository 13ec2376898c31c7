"""What is kept of a last message."""

import pytest

from bireme.planning.cause import tail
from support.launcher_words import LOST, cause


def test_a_message_ends_where_its_words_do() -> None:
    """The real mpirun ends its own with an empty line that holds a NUL."""
    assert tail("why\n  Exit code: 3\n-----\n\0\n") == "why\n  Exit code: 3\n-----"


def test_only_the_end_of_a_long_message_is_kept() -> None:
    assert tail("\n".join(map(str, range(100)))).split("\n") == [str(line) for line in range(80, 100)]
    assert len(tail("ä" * 5000).encode()) == 2048


SAID = f"""\
bireme: all 2 workers are reachable
[job-launcher:31272] plm:ssh: Warning: setpgid(31331,31331) failed in parent with errno=Permission denied(13)
Traceback (most recent call last):
  File "train.py", line 4, in <module>
RuntimeError: the loss is not a number
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
  Proc: [[48879,1],3]
  Errorcode: 1

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
{LOST} [job-worker-0:16483] Delaying for 1 seconds before aborting
{LOST}--------------------------------------------------------------------------
prterun has exited due to process rank 3 with PID 0 on node job-worker-1 calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
--------------------------------------------------------------------------
[job-launcher:28728] PMIX ERROR: PMIX_ERR_NOT_FOUND in file pmix_server.c at line 1747
\0
"""


KILLED = f"""\
epoch 3: loss 0.25
--------------------------------------------------------------------------
An MPI communication peer process has unexpectedly disconnected.  This
usually indicates a failure in the peer process (e.g., a crash or
otherwise exiting without calling MPI_FINALIZE first).

Although this local MPI process will likely now behave unpredictably
(it may even hang or crash), the root cause of this problem is the
failure of the peer -- that is what you need to investigate.  For
example, there may be a core file that you can examine.  More
generally: such peer hangups are frequently caused by application bugs
or other external events.

  Local host: job-worker-1
  Local PID:  17421
  Peer host:  job-worker-0
--------------------------------------------------------------------------
\0{LOST}\0[job-worker-1:17421] Delaying for 1 seconds before aborting
--------------------------------------------------------------------------
prterun noticed that process rank 1 with PID 17422 on node job-worker-0 exited on
signal 9 (Killed).
--------------------------------------------------------------------------
"""


def test_how_peers_lost_a_rank_that_was_killed_is_not_told() -> None:
    """As the real mpirun said it: with a NUL before what follows each of its notices."""
    first = cause(KILLED)
    assert (first.replica, first.rank, first.signal) == ("job-worker-0", 1, 9)
    assert first.message == "epoch 3: loss 0.25"


def test_the_words_of_the_rank_that_failed_are_not_lost_among_those_of_its_peers() -> None:
    """As the real mpirun said it."""
    first = cause(SAID)
    assert (first.replica, first.rank) == ("job-worker-1", 3)
    assert first.message.split("\n") == [
        "Traceback (most recent call last):",
        '  File "train.py", line 4, in <module>',
        "RuntimeError: the loss is not a number",
    ]


@pytest.mark.parametrize(
    ("said", "code"),
    [("\n  Proc: [[48879,1],3]\n  Errorcode: 7\n", 7), ("\nwith errorcode -1.\n", 255), ("\n", 1), ("", 1)],
    ids=["5.0", "4.1", "without a code", "cut off"],
)
def test_the_code_of_an_abort_is_the_ranks_not_that_of_an_mpirun_which_was_ended(
    said: str, code: int
) -> None:
    first = cause(f"MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD{said}")
    assert (first.replica, first.rank, first.exit_code) == ("job-worker-1", 3, code)


MIXED = """\
Traceback (most recent call last):
Traceback (most recent call last):
  File "train.py", line 2, in <module>
    import nosuchmodule
ModuleNotFoundError: No module named 'nosuchmodule'
  File "train.py", line 2, in <module>
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
    import nosuchmodule
ModuleNotFoundError: No module named 'nosuchmodule'
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[50104,1],2]
  Exit code:    1
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize("cut", [0, len("Traceback (most recent call last):\n")], ids=["whole", "cut"])
def test_what_ranks_say_alike_is_said_once(cut: int) -> None:
    """As the real mpirun of Open MPI 4.1 mixed it; kubelet may cut the beginning."""
    first = cause(MIXED[cut:])
    assert (first.replica, first.rank, first.exit_code) == ("job-worker-1", 2, 1)
    assert first.message.split("\n")[-3:] == [
        '  File "train.py", line 2, in <module>',
        "    import nosuchmodule",
        "ModuleNotFoundError: No module named 'nosuchmodule'",
    ]
    assert first.message.count("nosuchmodule'") == 1


def test_a_rank_is_named_though_others_speak_in_between() -> None:
    said = MIXED.replace("  Exit code:    1\n", "step 7\n  Exit code:    1\n")
    first = cause(said)
    assert (first.replica, first.rank, first.exit_code) == ("job-worker-1", 2, 1)
    assert "step 7" in first.message
    assert "Process name" not in first.message


def test_lines_that_one_rank_repeats_stay() -> None:
    recursion = '  File "a.py", line 1, in f\n    f()\n' * 3
    said = f"Traceback (most recent call last):\n{recursion}RecursionError: too deep"
    assert cause(said).message == said


def test_what_was_said_before_ranks_failed_alike_stays() -> None:
    assert cause("epoch 1\nepoch 2\nno data\nno data\n").message == "epoch 1\nepoch 2\nno data"


TAGGED = """\
[1,0]<stdout>: step 1
[1,3]<stdout>: step 1
[1,3]<stderr>: ValueError: bad shard
[1,1]<stdout>: step 1[1,3]<stdout>: bye
--------------------------------------------------------------------------
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-job-launcher-1@1,3]
   Exit code:    1
--------------------------------------------------------------------------
"""


def test_of_tagged_output_the_words_of_the_rank_that_failed_are_left_without_tags() -> None:
    first = cause(TAGGED)
    assert (first.replica, first.rank) == ("job-worker-1", 3)
    assert first.message == "step 1\nValueError: bad shard\nbye"


def test_tags_are_left_out_where_no_rank_is_known() -> None:
    assert cause("[1,0]<stdout>: one\n[1,1]<stderr>:two\n").message == "one\ntwo"
