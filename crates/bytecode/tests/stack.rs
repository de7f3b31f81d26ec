//! Goal: functions whose frames do not fit into one stack are refused, and no others. Method: small
//! programs whose functions lead to each other in every way there is.

use bytecode::Object;

use crate::support::{Loaded, built_of, world};

const PROGRAM: &str = "
typedef unsigned long long u64;
#define __ksym __attribute__((section(\".ksyms\")))
extern u64 sum(u64, u64, u64, u64, u64) __ksym;
extern u64 each(u64 (*f)(u64, u64), u64, u64) __ksym;
extern u64 bpf_timer_set_callback(u64 timer, u64 (*f)(u64, u64)) __ksym;
#define KEEP volatile u64 kept[40]; kept[n & 31] = n
static u64 large(u64 n, u64 more) {
	KEEP;
	return kept[more & 31];
}
static __attribute__((noinline)) u64 set(u64 timer, u64 (*f)(u64, u64)) {
	return bpf_timer_set_callback(timer, f);
}
u64 calls_back(u64 n) {
	KEEP;
	return each(large, 1, n) + kept[n & 31];
}
u64 calls_later(u64 n) {
	KEEP;
	return bpf_timer_set_callback(n, large) + kept[n & 31];
}
u64 has_it_called_later(u64 n) {
	KEEP;
	return set(n, large) + kept[n & 31];
}
u64 calls_back_only_beside(u64 n) {
	return each(large, 1, n);
}
u64 never_calls_back(u64 n) {
	u64 zero = 0;
	KEEP;
	asm volatile(\"\" : \"+r\"(zero));
	if (zero)
		n = each(large, 1, n);
	return n + kept[n & 31];
}
";

#[test]
fn what_is_called_back_takes_of_the_stack_of_its_caller() {
    let mut world = world();
    world.functions.insert("bpf_timer_set_callback".into(), 5);
    let bytes = built_of(PROGRAM);
    let refusal = |name: &str| {
        let object = Object::read(&bytes).expect("an object");
        let root = object.functions.iter().position(|one| one.name == name).expect(name);
        Loaded::linked(object, &[root], &world).err()
    };
    assert_eq!(
        refusal("calls_back").expect("640 bytes"),
        "calls_back: combined stack size of 2 calls is 640. Too large: calls_back 320, large 320 \
         bytes"
    );
    for fits in ["calls_later", "has_it_called_later", "calls_back_only_beside", "never_calls_back"]
    {
        assert_eq!(refusal(fits), None, "{fits}");
    }
}
