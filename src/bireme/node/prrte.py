"""Names for the daemons of Open MPI 5 (PRRTE), where pods have the host name of their machine.

Ranks hang if two daemons tell the same name. There is one way to give a daemon another: told that Slurm has
started it, it takes the name that Slurm's variables say.
"""

RANK = "bireme-rank"
"""The program through which a daemon starts ranks: they are not Slurm's, and must not think so."""
RANK_PROGRAM = """#!/bin/sh
unset SLURM_JOBID SLURM_JOB_ID SLURM_NODEID SLURMD_NODENAME
exec "$@"
"""
UNKNOWN_PART = 213
"""What a daemon ends with that has no part of such a name."""
# As mpirun writes it, or might: the text is for a shell.
_BY_ENVIRONMENT = (' --prtemca ess "env" ', " --prtemca ess env ")
_BY_SLURM = f" --prtemca ess slurm --prtemca odls_base_exec_agent {RANK} "
# mpirun itself, and one daemon: there is none to be mistaken for.
_ALONE = ' --prtemca ess_base_num_procs "2" '


def name_daemon(line: str, name: str) -> tuple[str, dict[str, str]]:
    """A shell's line with the variables that it needs; as it was, and none, if it starts no such daemon."""
    if _ALONE in line:
        return line, {}
    for written in _BY_ENVIRONMENT:
        if written in line:
            number = {"SLURM_JOBID": "1", "SLURM_JOB_ID": "1", "SLURM_NODEID": "0"}
            return line.replace(written, _BY_SLURM, 1), number | {"SLURMD_NODENAME": name}
    return line, {}
