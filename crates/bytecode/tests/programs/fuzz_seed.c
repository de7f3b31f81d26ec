/* An object that has a little of everything: where `make fuzz-bytecode` begins. */
typedef unsigned long long u64;
int table[8];
const volatile unsigned key = 3;
extern u64 sum(u64, u64) __attribute__((section(".ksyms")));
extern int CONFIG_HZ __attribute__((section(".kconfig")));
struct {
	int (*type)[2];
	int (*max_entries)[4];
	unsigned *key;
	u64 *value;
} numbers __attribute__((section(".maps")));
static void *(*lookup)(void *, const void *) = (void *)1;
struct ops {
	int (*enqueue)(u64 *);
	char name[8];
};
static __attribute__((noinline)) int more(int n)
{
	return (unsigned)table[n & 7] * 3u / (n | 1);
}
__attribute__((section("struct_ops/f"))) int f(u64 *p)
{
	unsigned k = key;
	u64 *v = lookup(&numbers, &k);
	table[k & 7] = more((int)p[1]) + (int)sum(p[0], 2) + CONFIG_HZ;
	return v ? *v : table[1];
}
__attribute__((section(".struct_ops.link"))) struct ops own = {.enqueue = f, .name = "small"};
char licence[] __attribute__((section("license"))) = "GPL";
