"""One small process per pod: it runs the pod's containers, and outlives the daemon that started it.

It decides nothing. Told to, it starts processes, sends signals, runs commands beside them, and keeps on
record how each of them ended; the daemon that comes after a crash finds all of that again. It imports nothing
but the standard library, without `site`: it starts in a few hundredths of a second and stays small.
"""
