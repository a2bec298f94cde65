"""Plans whose blocks take turns in this process (plan/streams.py). `run`: loops over blocks; `values`: what they read
from and keep; `collective`: operators that send pieces from all blocks to all.
"""
