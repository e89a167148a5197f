"""The five networks. No I/O, no sampling, no device policy.

Weights are for inference only and arrive fused (`checkpoint/load.py`).
"""
