"""Goal: clang, which builds policies for a kernel, cannot take a machine's memory.
Method: a source that expands to a thousand million signs; a program that tells its limit.
"""

import subprocess
import sys

import pytest
from schedlab.errors import SchedlabError
from schedlab.kernel import bpf

ENDLESS = """\
#define TEN(x) x x x x x x x x x x
#define THOUSAND(x) TEN(TEN(TEN(x)))
int sum = THOUSAND(THOUSAND(THOUSAND(+1)));
"""


@pytest.mark.skipif(bpf.find_clang() is None, reason="no clang for BPF")
def test_a_source_without_an_end_takes_no_more_memory_than_the_limit(
    tmp_path, monkeypatch, environment
):
    monkeypatch.setenv("XDG_CACHE_HOME", environment["XDG_CACHE_HOME"])
    monkeypatch.setattr(bpf, "MEMORY_BYTES_MAX", 512 << 20)
    source = tmp_path / "endless.bpf.c"
    source.write_text(ENDLESS)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(SchedlabError, match=r"out of memory$") as refused:
        bpf.object_of(source)
    assert list(tmp_path.iterdir()) == [source]
    assert refused.value.hint.startswith("the compiler gets 512 MiB of memory")


@pytest.mark.parametrize(("mib_asked", "mib_given"), [(2048, 1024), (512, 512)])
def test_a_limit_that_the_user_has_set_stays_where_it_is_lower(mib_asked, mib_given):
    words = f"['bash', '-c', 'ulimit -v'], 60, memory_bytes={mib_asked} << 20"
    code = f"from schedlab import programs; print(int(programs.output({words}).stdout))"
    line = f'ulimit -v {1024 << 10}; exec "$0" -c "{code}"'
    command = ["bash", "-c", line, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(mib_given << 10), done.stderr
