// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Functions of two numbers that use what C has: built for BPF they must answer as this machine's
 * compiler makes them. Variables keep their values from call to call, so order counts. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define noinline __attribute__((noinline))
#if !defined(__bpf__) || __BPF_CPU_VERSION__ >= 4
#define HAS_SIGNED_DIVISION 1
#else
#define HAS_SIGNED_DIVISION 0
#endif
#if !defined(__bpf__) || __BPF_CPU_VERSION__ >= 3
#define HAS_FETCH 1
#else
#define HAS_FETCH 0
#endif

/* In .rodata, .data and .bss. */
const volatile u16 squares[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
u64 counter = 0x0123456789abcdefULL;
static u32 narrow_counter = 7;
static volatile u8 bytes[64];
struct pair {
	s16 first;
	u64 second : 12;
	s64 third : 30;
	u8 last;
};
static struct pair pairs[8];

u64 f_add(u64 a, u64 b)
{
	return a + b * 3 - (a ^ b);
}
u64 f_narrow(u64 a, u64 b)
{
	return (u32)a * (u32)b + ((u32)a >> 3) - ((u32)b << 5);
}
u64 f_divide(u64 a, u64 b)
{
	return b ? a / b + a % b : 1;
}
u64 f_divide_narrow(u64 a, u64 b)
{
	return (u32)b ? (u32)a / (u32)b + (u32)a % (u32)b : 1;
}
u64 f_constants(u64 a, u64 b)
{
	return a / 10 + b % 1000 + (a >> 63) + (u32)b / 7;
}
u64 f_shift(u64 a, u64 b)
{
	return a << (b & 63) | a >> (-b & 63);
}
u64 f_shift_signed(u64 a, u64 b)
{
	return (s64)a >> (b & 63);
}
u64 f_shift_narrow(u64 a, u64 b)
{
	return ((s32)a >> (b & 31)) + ((u32)a << (b & 31));
}
u64 f_signs(u64 a, u64 b)
{
	return (s8)a + (s64)(s16)b * (s32)(a >> 7) - (u8)b;
}
u64 f_compare(u64 a, u64 b)
{
	u64 bits = 0;

	bits |= (u64)(a < b) | (u64)(a <= b) << 1 | (u64)((s64)a < (s64)b) << 2;
	bits |= (u64)((s32)a < (s32)b) << 3 | (u64)((u32)a < (u32)b) << 4 | (u64)(a == b) << 5;
	bits |= (u64)((s64)a >= (s64)b) << 6 | (u64)((a & b) != 0) << 7 | (u64)((s8)a > (s8)b) << 8;
	return bits;
}
u64 f_swap(u64 a, u64 b)
{
	return __builtin_bswap64(a) ^ __builtin_bswap32((u32)b) ^ __builtin_bswap16((u16)a);
}
u64 f_table(u64 a, u64 b)
{
	return squares[a & 15] * 1000 + squares[b & 15];
}
u64 f_counters(u64 a, u64 b)
{
	counter = counter * 6364136223846793005ULL + a;
	narrow_counter ^= (u32)b + (u32)(counter >> 33);
	return counter + narrow_counter;
}
u64 f_bytes(u64 a, u64 b)
{
	u64 sum = 0;

	bytes[a & 63] += (u8)b;
	bytes[(a >> 8) & 63] = (u8)(b >> 8);
	for (int i = 0; i < 64; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}
u64 f_pairs(u64 a, u64 b)
{
	struct pair *p = &pairs[a & 7];

	p->first = (s16)(a >> 3);
	p->second += b;
	p->third = (s64)(b << 5) ^ p->third;
	p->last--;
	return (u64)p->first + (u64)p->second * 3 + (u64)p->third * 5 + p->last;
}
u64 f_stack(u64 a, u64 b)
{
	volatile u64 words[40];

	for (u32 i = 0; i < 40; i++)
		words[i] = a + i * b;
	words[b % 40] ^= a;
	u64 sum = 0;
	for (u32 i = 40; i > 0; i--)
		sum = (sum << 1 | sum >> 63) ^ words[i - 1];
	return sum;
}
static noinline u64 collatz(u64 n)
{
	u64 steps = 0;

	while (n > 1 && steps < 1000) {
		n = n % 2 ? 3 * n + 1 : n / 2;
		steps++;
	}
	return steps;
}
static noinline u64 mixed(u64 a, u64 b, u64 c, u64 d, u64 e)
{
	volatile u64 kept = a ^ c;

	return collatz(b & 0xffff) + kept * d - e;
}
u64 f_calls(u64 a, u64 b)
{
	return mixed(a, b, a + b, a - b, 5) + mixed(b, a, 1, 2, 3);
}
static noinline u64 fibonacci(u64 n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
u64 f_recursion(u64 a, u64 b)
{
	return fibonacci(a % 6) * 100 + fibonacci(b % 6);
}
u64 f_switch(u64 a, u64 b)
{
	switch (a % 9) {
	case 0:
		return b;
	case 1:
		return b + 17;
	case 2:
		return b * b;
	case 5:
		return ~b;
	case 7:
		return -b;
	case 8:
		return b >> 9;
	default:
		return a ^ b << 1;
	}
}
u64 f_atomic(u64 a, u64 b)
{
	(void)__sync_fetch_and_add(&counter, a);
	return counter ^ b;
}
u64 f_fetch(u64 a, u64 b)
{
#if HAS_FETCH
	u64 before = __sync_fetch_and_xor(&counter, a);
	u32 narrow = __sync_fetch_and_add(&narrow_counter, (u32)b);
	u64 old = __sync_val_compare_and_swap(&counter, a & 1 ? counter : a, b);
	u64 was = __sync_lock_test_and_set(&counter, old + b);
	return before + narrow * 3ULL + old * 5 + was * 7 + __sync_fetch_and_or(&counter, b) +
	       __sync_fetch_and_and(&counter, ~a);
#else
	return 0;
#endif
}
u64 f_signed_division(u64 a, u64 b)
{
#if HAS_SIGNED_DIVISION
	s64 d = (s64)b ? (s64)b : 3;
	s32 n = (s32)b ? (s32)b : 3;

	if (d == -1 || n == -1)
		return 1;
	return (s64)a / d + (s64)a % d + (s32)a / n - (s32)a % n;
#else
	return 0;
#endif
}
u64 f_copies(u64 a, u64 b)
{
	struct pair one = pairs[a & 7];

	one.last = (u8)b;
	pairs[b & 7] = one;
	return (u64)pairs[a & 7].last * 256 + pairs[b & 7].last;
}

/* clang-format off */
#define FUNCTIONS(X) \
	X(add) X(narrow) X(divide) X(divide_narrow) X(constants) X(shift) X(shift_signed) \
	X(shift_narrow) X(signs) X(compare) X(swap) X(table) X(counters) X(bytes) X(pairs) \
	X(stack) X(calls) X(recursion) X(switch) X(atomic) X(copies)
#define NEWER_FUNCTIONS(X) X(fetch) X(signed_division)
/* clang-format on */

#ifndef __bpf__
#include <stdio.h>
#include <string.h>

/* Reads lines of a name and two numbers, and prints the answer to each. */
int main(void)
{
	char name[64];
	u64 a, b;

	while (scanf("%63s %llx %llx", name, &a, &b) == 3) {
#define TRY(f)                                                                                     \
	if (!strcmp(name, "f_" #f))                                                                \
		printf("%llx\n", f_##f(a, b));
		FUNCTIONS(TRY)
		NEWER_FUNCTIONS(TRY)
	}
	return 0;
}
#endif
