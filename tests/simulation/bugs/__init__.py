"""Bugs that the simulation must find, and does."""

from simulation.bugs import in_control, in_kube, in_planning

BUGS = (*in_control.BUGS, *in_kube.BUGS, *in_planning.BUGS)
