"""A one-node Kubernetes cluster with real containers, in namespaces of its own; needs root on Linux.

    cluster.py   outside: start it, talk to it, stop it
    inside.py    the first process in there: brings everything up, and answers `cluster.py`
    world.py     what the processes in there see of the machine: mounts, network, kernel settings
    plane.py     the control plane, listening where pods can reach it, with an audit log
    runtime.py   containerd and runc
    kubelet.py   kubelet, kube-proxy and CoreDNS
    door.py      brings connections from outside to the API server
    cgroups.py   the one thing that no namespace takes away
    program.py   a program of the node, and how it is known to be ready
    images.py    images, written without a registry or docker; recipes.py: those that tests use

Nothing of it outlives the process that called `Cluster.start`: the first process in there dies with it, and
with that all others.
"""
