"""The talker's small operations. Each has a plain torch twin, which defines what it computes and which CPUs run, and a
Triton kernel for CUDA devices. Where Triton is missing the twins run everywhere.

Rows are independent: a row's result does not depend on the other rows or on their number. Products split their sum over
a fixed number of parts, added in a fixed order; nothing is accumulated atomically.
"""
