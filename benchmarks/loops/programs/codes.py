"""Codes over bytes: checksums, runs, Huffman lengths, searches for patterns."""

import numpy as np

from benchmarks.loops.registry import loops, rng


def _bytes(n, kinds=256, seed=0):
    return rng(seed).integers(0, kinds, n).astype(np.uint8)


@loops(lambda n: (_bytes(n),), 1_000, 50_000, c=lambda lib, d: lib("crc16", len(d), d, out=np.empty(1, np.int64)))
def crc16(data):
    crc = 0xFFFF
    for b in data:
        current = 0xFF & int(b)
        for _ in range(8):
            if (crc & 1) ^ (current & 1):
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            current >>= 1
    crc = ~crc & 0xFFFF
    return (crc << 8) | ((crc >> 8) & 0xFF)


@loops(lambda n: (_bytes(n),), 2_000, 200_000)
def crc32_table(data):
    table = np.zeros(256, dtype=np.int64)
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ 0xEDB88320 if c & 1 else c >> 1
        table[i] = c
    crc = 0xFFFFFFFF
    for i in range(len(data)):
        crc = table[(crc ^ int(data[i])) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@loops(lambda n: (_bytes(n),), 2_000, 200_000)
def adler32(data):
    a, b = 1, 0
    for x in data:
        a = (a + int(x)) % 65521
        b = (b + a) % 65521
    return b * 65536 + a


@loops(lambda n: (np.repeat(_bytes(n // 4, 3), rng(1).integers(1, 8, n // 4)),), 2_000, 200_000)
def run_length(data):
    n = len(data)
    values = np.empty(n, dtype=data.dtype)
    lengths = np.empty(n, dtype=np.int64)
    runs = 0
    i = 0
    while i < n:
        j = i + 1
        while j < n and data[j] == data[i]:
            j += 1
        values[runs] = data[i]
        lengths[runs] = j - i
        runs += 1
        i = j
    return values[:runs], lengths[:runs]


@loops(lambda n: (rng().integers(1, 1000, n),), 60, 400)
def huffman_lengths(counts):
    n = len(counts)
    weight = np.zeros(2 * n - 1, dtype=np.int64)
    parent = np.full(2 * n - 1, -1)
    weight[:n] = counts
    for new in range(n, 2 * n - 1):
        first = second = -1
        for i in range(new):
            if parent[i] >= 0:
                continue
            if first < 0 or weight[i] < weight[first]:
                second = first
                first = i
            elif second < 0 or weight[i] < weight[second]:
                second = i
        weight[new] = weight[first] + weight[second]
        parent[first] = parent[second] = new
    lengths = np.zeros(n, dtype=np.int64)
    for i in range(n):
        at = i
        while parent[at] >= 0:
            at = parent[at]
            lengths[i] += 1
    return lengths


@loops(lambda n: (_bytes(n, 2), np.tile(_bytes(5, 2, seed=1), 3)), 2_000, 200_000)
def knuth_morris_pratt(text, pattern):
    m = len(pattern)
    fail = np.zeros(m, dtype=np.int64)
    k = 0
    for i in range(1, m):
        while k > 0 and pattern[i] != pattern[k]:
            k = fail[k - 1]
        if pattern[i] == pattern[k]:
            k += 1
        fail[i] = k
    found = 0
    last = -1
    k = 0
    for i in range(len(text)):
        while k > 0 and text[i] != pattern[k]:
            k = fail[k - 1]
        if text[i] == pattern[k]:
            k += 1
        if k == m:
            found += 1
            last = i - m + 1
            k = fail[k - 1]
    return found, last


@loops(lambda n: (_bytes(n, 4), _bytes(6, 4, seed=1)), 2_000, 100_000)
def rabin_karp(text, pattern):
    n, m = len(text), len(pattern)
    base, modulus = 257, 1_000_003
    lead = 1
    for _ in range(m - 1):
        lead = lead * base % modulus
    want = have = 0
    for i in range(m):
        want = (want * base + int(pattern[i])) % modulus
        have = (have * base + int(text[i])) % modulus
    count = 0
    for i in range(n - m + 1):
        if want == have:
            same = True
            for j in range(m):
                if text[i + j] != pattern[j]:
                    same = False
                    break
            if same:
                count += 1
        if i + m < n:
            have = ((have - int(text[i]) * lead) * base + int(text[i + m])) % modulus
    return count


@loops(lambda n: (_bytes(n, 6), 64), 500, 5_000)
def longest_matches(data, window):
    n = len(data)
    length = np.zeros(n, dtype=np.int32)
    back = np.zeros(n, dtype=np.int32)
    for i in range(n):
        for d in range(1, min(window, i) + 1):
            k = 0
            while i + k < n and k < 255 and data[i + k] == data[i + k - d]:
                k += 1
            if k > length[i]:
                length[i] = k
                back[i] = d
    return length, back
