"""What takes a worker's powers away: memory, files, network, system calls (query-plane.md, "Worker").

Settings of an engine are no sandbox, so the kernel keeps the walls: resource limits, Landlock (one READ_FILE rule per
admitted file, no TCP, no signals to others), a seccomp list of calls a reading engine never makes (UDP sockets are
not Landlock's business), and a network namespace where one can be had. Each step is for the calling process and its
children, and none can be undone.

`auto` takes what the kernel offers, `require` refuses to run without Landlock and seccomp, `off` is for debugging.
"""

import ctypes
import errno
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from polyc.errors import UnavailableError

Sandbox = Literal["auto", "require", "off"]

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

_LANDLOCK_CREATE_RULESET: Final = 444
_LANDLOCK_ADD_RULE: Final = 445
_LANDLOCK_RESTRICT_SELF: Final = 446
_LANDLOCK_VERSION_FLAG: Final = 1
_LANDLOCK_RULE_PATH_BENEATH: Final = 1
_ACCESS_FS_READ_FILE: Final = 1 << 2
_ACCESS_FS_BY_ABI: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many access bits an ABI knows; later ones: 16
_ACCESS_NET_TCP: Final = 0b11  # bind and connect
_SCOPED: Final = 0b11  # abstract sockets and signals

# Classic BPF, as seccomp reads it: a load, two jumps, a return with its verdict.
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000
_KILL: Final = 0x80000000
_X32_CALLS: Final = 0x40000000  # the same calls once more, under the same architecture's name
_CLONE3: Final = 435
_CLONE_THREAD: Final = 0x10000

# Calls that open doors or start programs; by architecture, because numbers differ.
_DENIED_CALLS: Final[dict[str, tuple[int, int, tuple[int, ...]]]] = {
    "x86_64": (
        0xC000003E,
        56,  # clone
        (
            41, 42, 43, 49, 50, 53, 288,  # socket connect accept bind listen socketpair accept4
            57, 58, 59, 322,  # fork vfork execve execveat
            62, 200, 424, 434, 438,  # kill tkill pidfd_*
            101, 310, 311,  # ptrace process_vm_*
            165, 166, 155, 161, 272, 308, 428, 429, 430, 432,  # mounts, roots, namespaces
            425, 426, 427, 321, 298, 323, 248, 249, 250,  # io_uring_* bpf perf_event_open userfaultfd keys
            303, 304, 319, 133, 86, 88, 265, 266, 83, 258, 87, 263, 82, 264, 316,  # handles, memfd, nodes, links
            90, 91, 92, 93, 94, 260, 268, 76, 77, 285,  # modes, owners, truncate, fallocate
            175, 313, 176, 246, 169,  # modules, kexec, reboot
        ),
    ),
    "aarch64": (
        0xC00000B7,
        220,  # clone
        (
            198, 203, 202, 200, 201, 199, 242,
            221, 281, 129, 130, 424, 117, 270, 271, 434, 438,
            40, 39, 41, 51, 97, 268, 428, 429, 430, 432,
            425, 426, 427, 280, 241, 282, 217, 218, 219,
            264, 265, 279, 33, 37, 36, 34, 35, 38, 276, 52, 53, 54, 55, 45, 46, 47,
            105, 273, 106, 104, 142,
        ),
    ),
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def leave_network() -> bool:
    """Enter a network namespace without interfaces, for this process and its children; False where that is denied."""
    for flags in (os_flag("CLONE_NEWNET"), os_flag("CLONE_NEWUSER") | os_flag("CLONE_NEWNET")):
        if _libc.unshare(flags) == 0:
            return True
    return False


def os_flag(name: str) -> int:
    """The number of a clone flag (Python names them from 3.12 on)."""
    return {"CLONE_NEWNET": 0x40000000, "CLONE_NEWUSER": 0x10000000}[name]


def limit_resources(*, memory_size_bytes: int) -> None:
    """Bound the address space to what is mapped now and this much more; no core, no file growth, few descriptors."""
    mapped = _mapped_size_bytes()
    for kind, value in (
        (resource.RLIMIT_AS, mapped + memory_size_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 512),  # a fleet's files: packs × tables of one statement
    ):
        resource.setrlimit(kind, (value, value))
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def restrict(paths: Iterable[str], *, sandbox: Sandbox) -> None:
    """Leave this process nothing but reading these files; UnavailableError when `require` cannot be met."""
    if sandbox == "off":
        return
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    files, calls = _restrict_files(paths), _deny_calls()
    if sandbox == "require" and not (files and calls):
        raise UnavailableError(
            "this kernel offers no Landlock or seccomp", hint="query.sandbox = auto runs without them"
        )


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 when there is none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION_FLAG)))


def _restrict_files(paths: Iterable[str]) -> bool:
    version = landlock_version()
    if version < 1:
        return False
    attributes = _RulesetAttributes(
        fs=(1 << _ACCESS_FS_BY_ABI.get(version, 16)) - 1,
        net=_ACCESS_NET_TCP if version >= 4 else 0,
        scoped=_SCOPED if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        for path in paths:
            _allow_reading(ruleset, path)
        return bool(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow_reading(ruleset: int, path: str) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        rule = _PathBeneath(access=_ACCESS_FS_READ_FILE, parent=parent)
        if _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, ctypes.byref(rule), 0) != 0:
            raise UnavailableError("an artifact cannot be admitted to the sandbox")
    finally:
        os.close(parent)


def _deny_calls() -> bool:
    """A seccomp filter: another architecture's calls kill, denied ones fail with EPERM, all others pass.

    `clone` may make threads and nothing else; `clone3`, whose flags a filter cannot see, is "not there" (ENOSYS), and
    the C library falls back to `clone`.
    """
    known = _DENIED_CALLS.get(platform.machine())
    if known is None:
        return False
    architecture, clone, calls = known
    count = len(calls)
    program = [
        _instruction(_LOAD, 0, 0, 4),  # the architecture
        _instruction(_JUMP_EQUAL, 1, 0, architecture),
        _instruction(_RETURN, 0, 0, _KILL),
        _instruction(_LOAD, 0, 0, 0),  # the call's number
        _instruction(_JUMP_AT_LEAST, count + 3, 0, _X32_CALLS),
        _instruction(_JUMP_EQUAL, count + 3, 0, _CLONE3),
        _instruction(_JUMP_EQUAL, count + 3, 0, clone),
        *(_instruction(_JUMP_EQUAL, count - i, 0, call) for i, call in enumerate(calls)),
        _instruction(_RETURN, 0, 0, _ALLOW),
        _instruction(_RETURN, 0, 0, _FAIL | errno.EPERM),
        _instruction(_RETURN, 0, 0, _FAIL | errno.ENOSYS),
        _instruction(_LOAD, 0, 0, 16),  # the flags of clone
        _instruction(_JUMP_ANY_BIT, 0, 1, _CLONE_THREAD),
        _instruction(_RETURN, 0, 0, _ALLOW),
        _instruction(_RETURN, 0, 0, _FAIL | errno.EPERM),
    ]
    code = b"".join(program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
    return bool(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0)


def _instruction(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, jump_true, jump_false, value)


def _mapped_size_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
