"""Goal: clang, which builds policies for a kernel, cannot take a machine's memory.
Method: a source that expands to a thousand million signs.
"""

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
    with pytest.raises(SchedlabError, match="out of memory") as refused:
        bpf.object_of(source)
    assert refused.value.hint.startswith("the compiler gets 512 MiB of memory")
