"""Benchmarks: each module measures one thing and says which limit it must keep."""
