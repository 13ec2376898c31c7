"""Pods as podman's containers, for jobs that need their image.

The pod is our shim, as it is for processes: it has the pod's host name and network, and its containers share
them. For each container it starts an attendant, which starts the container by podman and ends as it ends. So
output, signals, restarts and what is found again after a crash are the same for both drivers.
"""
