"""The typed job kinds, the slices of Kubernetes objects that we read, and the CRDs made from them."""
