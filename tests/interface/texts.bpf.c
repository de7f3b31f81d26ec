/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* texts - first in, first out; and what calls on texts, bits and memory with a size answer.
 *
 * As in maps.bpf.c, `init` asks, and ends the policy by an error that names the line of the first
 * answer that is not a kernel's. The headers do not declare what is asked here.
 */
#include <scx/common.bpf.h>
#include "expect.bpf.h"

char _license[] SEC("license") = "GPL";

#define SHARED_DSQ 0
#define NR_WORDS 3
#define TOO_MANY_WORDS 512
#define ERANGE 34

struct bpf_dynptr {
	u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_bits {
	u64 opaque[2];
} __attribute__((aligned(8)));

static long (*const bpf_dynptr_from_mem)(void *data, u32 size, u64 flags,
					 struct bpf_dynptr *ptr) = (void *)197;
static long (*const bpf_snprintf)(char *to, u32 bytes, const char *format, const void *words,
				  u32 words_bytes) = (void *)165;
extern int bpf_strcmp(const char *one, const char *other) __ksym;
extern int bpf_strcasecmp(const char *one, const char *other) __ksym;
extern int bpf_strncasecmp(const char *one, const char *other, u64 most) __ksym;
extern int bpf_strlen(const char *text) __ksym;
extern int bpf_strnlen(const char *text, u64 most) __ksym;
extern int bpf_strchr(const char *text, char letter) __ksym;
extern int bpf_strnchr(const char *text, u64 most, char letter) __ksym;
extern int bpf_strstr(const char *text, const char *part) __ksym;
extern int bpf_strnstr(const char *text, const char *part, u64 most) __ksym;
extern int bpf_iter_bits_new(struct bpf_iter_bits *it, const u64 *words, u32 nr_words) __ksym;
extern int *bpf_iter_bits_next(struct bpf_iter_bits *it) __ksym;
extern void bpf_iter_bits_destroy(struct bpf_iter_bits *it) __ksym;
extern int bpf_dynptr_adjust(struct bpf_dynptr *ptr, u64 from, u64 to) __ksym;
extern bool bpf_dynptr_is_null(const struct bpf_dynptr *ptr) __ksym;
extern bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *ptr) __ksym;
extern u64 bpf_dynptr_size(const struct bpf_dynptr *ptr) __ksym;
extern int bpf_dynptr_clone(const struct bpf_dynptr *ptr, struct bpf_dynptr *clone) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, u64 from, void *buffer,
			      u64 bytes) __ksym;

static char sooner[] = "sooner", Sooner[] = "Sooner", later[] = "sooner or later", or_[] = "or ",
	    none[] = "";
static u64 words[NR_WORDS] = {1ULL << 63 | 1, 0, 1ULL << 5};
static char bytes[16], made[32];
static u8 address[16] = {127, 0, 0, 1, 0xfe, 0x80};
static char shown[4][40] = {"127.0.0.1", "127.000.000.001.", "7f000001fe8000000000000000000000",
			    "7f00:0001:fe80:0000:0000:0000:0000:0000"};

/* What walks count: where the verifier knows no values, so that it follows a round once. */
static int nr_bits, last_bit, sum_of_bits;

static __noinline int ask_of_texts(void)
{
	EXPECT(bpf_strcmp(sooner, sooner) == 0);
	EXPECT(bpf_strcmp(sooner, later) == -1 && bpf_strcmp(later, sooner) == 1);
	EXPECT(bpf_strcmp(Sooner, sooner) == -1 && bpf_strcasecmp(Sooner, sooner) == 0);
	EXPECT(bpf_strncasecmp(Sooner, later, 6) == 0 && bpf_strncasecmp(Sooner, later, 7) == -1);
	EXPECT(bpf_strcmp(none, none) == 0 && bpf_strcmp(none, sooner) == -1);
	EXPECT(bpf_strcmp(NULL, sooner) == -ERANGE && bpf_strlen(NULL) == -ERANGE);
	EXPECT(bpf_strlen(later) == 15 && bpf_strlen(none) == 0);
	EXPECT(bpf_strnlen(later, 6) == 6 && bpf_strnlen(sooner, 60) == 6);
	EXPECT(bpf_strchr(later, 'r') == 5 && bpf_strchr(later, 'z') == -ENOENT);
	EXPECT(bpf_strchr(later, 0) == 15);
	EXPECT(bpf_strnchr(later, 5, 'r') == -ENOENT && bpf_strnchr(later, 6, 'r') == 5);
	EXPECT(bpf_strstr(later, or_) == 7 && bpf_strstr(sooner, or_) == -ENOENT);
	EXPECT(bpf_strstr(later, none) == 0 && bpf_strstr(none, none) == 0);
	EXPECT(bpf_strnstr(later, or_, 10) == 7 && bpf_strnstr(later, or_, 9) == -ENOENT);
	return 0;
}

static __noinline int count_bits(u32 nr_words)
{
	int *bit;

	nr_bits = sum_of_bits = 0;
	bpf_for_each(bits, bit, words, nr_words) {
		nr_bits++;
		sum_of_bits += *bit;
		last_bit = *bit;
	}
	return nr_bits;
}

/* Those that are there at first, as the iterator has a copy. */
static __noinline int count_cleared(u32 nr_words)
{
	u64 kept = words[0];
	int *bit;

	nr_bits = 0;
	bpf_for_each(bits, bit, words, nr_words) {
		nr_bits++;
		words[0] = 0;
	}
	words[0] = kept;
	return nr_bits;
}

static __noinline int ask_of_bits(void)
{
	struct bpf_iter_bits it;
	int error;

	EXPECT(count_bits(1) == 2 && sum_of_bits == 63 && last_bit == 63);
	EXPECT(count_bits(NR_WORDS) == 3 && sum_of_bits == 63 + 133 && last_bit == 133);
	EXPECT(count_bits(0) == 0);
	EXPECT(count_cleared(1) == 2 && count_cleared(NR_WORDS) == 3);
	error = bpf_iter_bits_new(&it, words, TOO_MANY_WORDS);
	bpf_iter_bits_destroy(&it);
	EXPECT(error == -E2BIG);
	error = bpf_iter_bits_new(&it, words, 0);
	bpf_iter_bits_destroy(&it);
	EXPECT(error == -EINVAL);
	return 0;
}

static __noinline int ask_of_sizes(void)
{
	struct bpf_dynptr all, part;
	char *found;

	EXPECT(bpf_dynptr_from_mem(bytes, sizeof(bytes), 0, &all) == 0);
	EXPECT(bpf_dynptr_size(&all) == sizeof(bytes) && !bpf_dynptr_is_null(&all));
	EXPECT(!bpf_dynptr_is_rdonly(&all));
	EXPECT(bpf_dynptr_clone(&all, &part) == 0);
	EXPECT(bpf_dynptr_adjust(&part, 4, 12) == 0 && bpf_dynptr_size(&part) == 8);
	EXPECT(bpf_dynptr_adjust(&part, 5, 4) == -EINVAL);
	EXPECT(bpf_dynptr_adjust(&part, 0, 9) == -ERANGE);
	EXPECT(bpf_dynptr_size(&all) == sizeof(bytes));
	bytes[5] = 7;
	found = bpf_dynptr_slice(&part, 1, NULL, 4);
	EXPECT(found && *found == 7);
	EXPECT(!bpf_dynptr_slice(&part, 5, NULL, 4));
	return 0;
}

#define WRITES(length, format, word)                                                               \
	do {                                                                                       \
		u64 given = (u64)(word);                                                           \
		static const char made_by[] = format;                                              \
		EXPECT(bpf_snprintf(made, sizeof(made), made_by, &given, sizeof(given)) ==         \
		       (length) + 1);                                                              \
	} while (0)

/* How long a text of a pointer is, as its digits differ. */
static __noinline int ask_of_messages(void)
{
	WRITES(0, "%s", 0);
	WRITES(6, "%s", sooner);
	WRITES(16, "%px", sooner);
	WRITES(16, "%p", sooner);
	WRITES(17, "%p,", sooner);
	WRITES(7, "%pks.", sooner);
	return 0;
}

/* Of an internet address no width counts, and no letter behind it. */
static __noinline int ask_of_addresses(void)
{
	WRITES(9, "%pI4", address);
	EXPECT(bpf_strcmp(made, shown[0]) == 0);
	WRITES(16, "%20pi4x.", address);
	EXPECT(bpf_strcmp(made, shown[1]) == 0);
	WRITES(32, "%pi6", address);
	EXPECT(bpf_strncasecmp(made, shown[2], sizeof(made) - 1) == 0);
	WRITES(39, "%pI6", address);
	EXPECT(bpf_strncasecmp(made, shown[3], sizeof(made) - 1) == 0);
	WRITES(7, "%pI4", 0);
	return 0;
}

/* A kernel reads none of a task's memory for its own, and nothing where nothing is. */
static __noinline int ask_of_reads(void)
{
	u64 word;

	EXPECT(bpf_probe_read_kernel(&word, sizeof(word), (void *)0x10) == -ERANGE);
	EXPECT(bpf_probe_read_kernel(&word, sizeof(word), NULL) == -ERANGE);
	EXPECT(bpf_probe_read_kernel(&word, sizeof(word), (void *)(1ULL << 63)) == -ERANGE);
	EXPECT(bpf_probe_read_kernel_str(made, sizeof(made), NULL) == -ERANGE);
	EXPECT(bpf_probe_read_kernel_str(made, sizeof(made), sooner) == 7);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(texts_init)
{
	int error = scx_bpf_create_dsq(SHARED_DSQ, -1);

	error = error ?: ask_of_texts();
	error = error ?: ask_of_bits();
	error = error ?: ask_of_sizes();
	error = error ?: ask_of_messages();
	error = error ?: ask_of_addresses();
	return error ?: ask_of_reads();
}

void BPF_STRUCT_OPS(texts_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED_DSQ, SCX_SLICE_DFL, enq_flags);
}

void BPF_STRUCT_OPS(texts_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED_DSQ);
}

SCX_OPS_DEFINE(texts_ops, .init = (void *)texts_init, .enqueue = (void *)texts_enqueue,
	       .dispatch = (void *)texts_dispatch, .name = "texts");
