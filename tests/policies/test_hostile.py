"""Goal: an object that somebody made to do harm is an error message, whatever is wrong with it.

Method: a sound object, changed at one place, is given to the real command. None may end in a
traceback, a panic, a death, or a wait; what can be told apart is told.
"""

import io
import random
import re
import struct
import subprocess

import pytest
from elftools.elf.elffile import ELFFile
from schedlab import catalogue

RUN = ("run", "./hostile.bpf.o", "--workload", "ping_pong", "--machine", "laptop")
SOURCE = """\
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
const volatile u64 slice_ns = 1000000;
u64 nr_calls;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

void BPF_STRUCT_OPS(hostile_enqueue, struct task_struct *p, u64 enq_flags)
{
	u32 key = p->pid & 3;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		*count += nr_calls++;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(hostile_init)
{
	asm volatile("r0 = 0; r0 = 0; r0 = 0; r0 = 0; r0 = 0" ::: "r0");
	return 0;
}

SCX_OPS_DEFINE(hostile_ops, .enqueue = (void *)hostile_enqueue, .init = (void *)hostile_init,
	.name = "hostile");
"""
INIT = "struct_ops.s/hostile_init"
ENQUEUE = "struct_ops/hostile_enqueue"
HUGE = 2**63 + 8
# Of a header of the file and of a section, where a field is and how wide. Source: elf(5).
MACHINE, SECTIONS_AT, SECTION_BYTES, NR_SECTIONS, NAMES = (
    (18, "<H"), (40, "<Q"), (58, "<H"), (60, "<H"), (62, "<H"),
)  # fmt: skip
OFFSET, SIZE, LINK, ENTRY = (24, "<Q"), (32, "<Q"), (40, "<I"), (56, "<Q")
# What the simulator says that it found, or the run's own failure.
LOOPS = "has not returned after 1073741824 instructions"


class Object:
    """An object whose bytes are changed."""

    def __init__(self, content):
        self.bytes = bytearray(content)
        elf = ELFFile(io.BytesIO(content))
        self.headers_at, entry = elf["e_shoff"], elf["e_shentsize"]
        self.sections = {
            section.name: (
                self.headers_at + entry * number,
                section["sh_offset"],
                section["sh_size"],
            )
            for number, section in enumerate(elf.iter_sections())
        }

    def set(self, field, value):
        """Sets a field of the file's header."""
        at, form = field
        struct.pack_into(form, self.bytes, at, value)

    def header(self, section, field, value):
        """Sets a field of a section's header."""
        at, form = field
        struct.pack_into(form, self.bytes, self.sections[section][0] + at, value)

    def put(self, section, at, content):
        """Puts bytes into a section, from its end if `at` is negative."""
        _, begin, size = self.sections[section]
        begin += at % size
        self.bytes[begin : begin + len(content)] = content


def code(opcode, registers=0, offset=0, number=0):
    """An instruction of BPF: RFC 9669, section 3."""
    return struct.pack("<BBhi", opcode, registers, offset, number)


JUMP, CALL, EXIT, LOAD_WIDE, MOVE, STORE = 0x05, 0x85, 0x95, 0x18, 0xB7, 0x7B
# What is done to the object, and what is said of it.
CHANGES = {
    "nothing": (lambda o: o, None),
    "32 bits": (lambda o: o.bytes.__setitem__(4, 1), "cannot be read"),
    "big endian": (lambda o: o.bytes.__setitem__(5, 2), "cannot be read"),
    "of x86-64": (lambda o: o.set(MACHINE, 62), "not for BPF"),
    "sections beyond the file": (lambda o: o.set(SECTIONS_AT, HUGE), "cannot be read"),
    "headers of a byte": (lambda o: o.set(SECTION_BYTES, 1), "cannot be read"),
    "headers of none": (lambda o: o.set(SECTION_BYTES, 0), "cannot be read"),
    "65,535 sections": (lambda o: o.set(NR_SECTIONS, 65535), "cannot be read"),
    "no sections": (lambda o: o.set(NR_SECTIONS, 0), ""),
    "names in a section that is none": (lambda o: o.set(NAMES, 999), "cannot be read"),
    "code beyond the file": (lambda o: o.header(ENQUEUE, OFFSET, HUGE), "cannot be read"),
    "code without an end": (lambda o: o.header(ENQUEUE, SIZE, HUGE), "has 9223372036854775"),
    "code that overlaps all": (lambda o: o.header(ENQUEUE, OFFSET, 0), ""),
    "code of half an instruction": (lambda o: o.header(ENQUEUE, SIZE, 12), ""),
    "no code": (lambda o: o.header(ENQUEUE, SIZE, 0), ""),
    "symbols beyond the file": (lambda o: o.header(".symtab", OFFSET, HUGE), "cannot be read"),
    "symbols of a byte": (lambda o: o.header(".symtab", ENTRY, 1), None),
    "names of symbols elsewhere": (lambda o: o.header(".symtab", LINK, 1), None),
    "variables without an end": (lambda o: o.header(".bss", SIZE, HUGE), ""),
    "4 GiB of variables": (lambda o: o.header(".bss", SIZE, 2**32), ""),
    "types beyond the file": (lambda o: o.header(".BTF", OFFSET, HUGE), "cannot be read"),
    "no types": (lambda o: o.header(".BTF", SIZE, 0), ""),
    "types of another magic": (lambda o: o.put(".BTF", 0, b"\0\0"), "cannot be read"),
    "a header of types without an end": (lambda o: o.put(".BTF", 4, b"\xff" * 4), "cannot be read"),
    "types without an end": (lambda o: o.put(".BTF", 12, b"\xff" * 4), "cannot be read"),
    "names of types without an end": (lambda o: o.put(".BTF", 20, b"\xff" * 4), "cannot be read"),
    "types of zeros": (lambda o: o.put(".BTF", 24, bytes(400)), ""),
    "types of ones": (lambda o: o.put(".BTF", 24, b"\xff" * 400), ""),
    "notes of another magic": (lambda o: o.put(".BTF.ext", 0, b"\0\0"), ""),
    "notes without an end": (lambda o: o.put(".BTF.ext", 4, b"\xff" * 28), ""),
    "notes of ones": (lambda o: o.put(".BTF.ext", 32, b"\xff" * 60), ""),
    "records of notes of no bytes": (lambda o: o.put(".BTF.ext", 32, bytes(4)), ""),
    "a table of operations of ones": (lambda o: o.put(".struct_ops.link", 0, b"\xff" * 64), None),
    "relocations to no symbol": (lambda o: o.put(f".rel{ENQUEUE}", 12, b"\xff\xff\xff\0"), ""),
    "relocations of nothing": (lambda o: o.put(f".rel{ENQUEUE}", 0, b"\xff" * 8), ""),
    "relocations of an unknown kind": (lambda o: o.put(f".rel{ENQUEUE}", 8, b"\x63\0\0\0"), ""),
    "half a relocation": (lambda o: o.header(f".rel{ENQUEUE}", SIZE, 12), ""),
    "operations at other places": (lambda o: o.put(".rel.struct_ops.link", 0, b"\x03"), None),
    "an opcode that is none": (lambda o: o.put(INIT, 0, code(0xFF)), "hostile_init"),
    "a register that is none": (lambda o: o.put(INIT, 0, code(MOVE, 0x0B)), "hostile_init"),
    "a write to R10": (lambda o: o.put(INIT, 0, code(MOVE, 0x0A)), "hostile_init"),
    "a jump out": (lambda o: o.put(INIT, 0, code(JUMP, 0, 32767)), "hostile_init"),
    "a jump before": (lambda o: o.put(INIT, 0, code(JUMP, 0, -100)), "hostile_init"),
    "a jump to itself": (lambda o: o.put(INIT, 0, code(JUMP, 0, -1)), LOOPS),
    "a jump into a wide load": (lambda o: o.put(
        INIT, 0, code(JUMP, 0, 1) + code(LOAD_WIDE) + code(0)), "hostile_init"),
    "half a wide load": (lambda o: o.put(INIT, -8, code(LOAD_WIDE)), "hostile_init"),
    "a program without its end": (lambda o: o.put(INIT, -8, code(MOVE)), "hostile_init"),
    "a helper that is none": (lambda o: o.put(INIT, 0, code(CALL, 0, 0, 9999)), "9999"),
    "a helper of another kind": (lambda o: o.put(INIT, 0, code(CALL, 0, 0, 51)), "51"),
    "a kfunc by a number": (lambda o: o.put(INIT, 0, code(CALL, 0x20, 0, 77)), ""),
    "a call of itself": (lambda o: o.put(INIT, 0, code(CALL, 0x10, 0, -1)), "8 deep"),
    "a call out": (lambda o: o.put(INIT, 0, code(CALL, 0x10, 0, 5000)), "hostile_init"),
    "a store to NULL": (lambda o: o.put(
        INIT, 0, code(MOVE, 1) + code(STORE, 1)), "next to NULL"),
    "a store to a number": (lambda o: o.put(
        INIT, 0, code(MOVE, 1, 0, -4096) + code(STORE, 1)), "it writes 8 bytes at 0xffff"),
    "a store below the stack": (lambda o: o.put(INIT, 0, code(STORE, 0x0A, -520)), "hostile_init"),
    "a store above the stack": (lambda o: o.put(INIT, 0, code(STORE, 0x0A, 8)), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of an object with nothing wrong."""
    source = tmp_path_factory.mktemp("sound") / "hostile.bpf.c"
    source.write_text(SOURCE)
    words = ["clang-19", "-O2", "-g", "-std=gnu17", "-target", "bpf", "-mcpu=v3", "-c"]
    include = f"-I{catalogue.include_directory()}"
    made = source.with_suffix(".o")
    subprocess.run([*words, include, source, "-o", made], check=True)
    return made.read_bytes()


def told(command, tmp_path, content, *more):
    """What comes of a run of an object with this content, which must be an error at the most."""
    (tmp_path / "hostile.bpf.o").write_bytes(content)
    done = command(*RUN, *more)
    assert done.returncode in (0, 1, 2), done.stderr
    for word in ("Traceback", "panicked", "assertion of its own", "the process at work"):
        assert word not in done.stderr
    if done.returncode:
        assert re.match(r"error: [^\n]*hostile", done.stderr), done.stderr
    return done


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_with_an_object_is_told(command, tmp_path, sound, name):
    change, said = CHANGES[name]
    hostile = Object(sound)
    change(hostile)
    done = told(command, tmp_path, bytes(hostile.bytes))
    assert bool(done.returncode) == (said is not None), done.stderr
    assert (said or "") in done.stderr


def test_what_stays_in_the_policys_own_memory_is_told_by_a_strict_run(command, tmp_path, sound):
    hostile = Object(sound)
    hostile.put(INIT, 0, code(STORE, 0x0A, 8))
    done = told(command, tmp_path, bytes(hostile.bytes), "--strict")
    assert done.returncode == 1
    assert "hostile_init: it writes 8 bytes" in done.stderr and "its stack" in done.stderr


@pytest.mark.parametrize("part", [0.001, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.99999])
def test_an_object_that_ends_too_early_cannot_be_read(command, tmp_path, sound, part):
    done = told(command, tmp_path, sound[: int(len(sound) * part)])
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("seed", range(12))
def test_an_object_with_words_of_chance_does_no_harm(command, tmp_path, sound, seed):
    draw, content = random.Random(seed), bytearray(sound)
    for _ in range(1 << seed % 6):
        at = draw.randrange(len(content) - 4)
        content[at : at + 4] = draw.choice((b"\xff" * 4, bytes(4), draw.randbytes(4)))
    told(command, tmp_path, bytes(content))
