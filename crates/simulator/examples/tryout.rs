use std::path::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let pol = policy::compile(Path::new(&a[1]), &[PathBuf::from("policies/include")], Path::new("/tmp/schedcache")).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let m = scenario::load_machine(Path::new(&a[2])).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let params = a[4..].iter().filter_map(|x| x.split_once('=')).filter(|x| !x.0.starts_with('@')).map(|(k,v)| (k.to_string(), v.to_string())).collect();
    let w = scenario::load_workload(Path::new(&a[3]), &params).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let tunables = a[4..].iter().filter_map(|x| x.split_once('=')).filter(|x| x.0.starts_with('@') && x.0 != "@until").map(|(k,v)| (k[1..].to_string(), v.parse().unwrap())).collect();
    let until = a[4..].iter().filter_map(|x| x.strip_prefix("@until=")).next().map(|x| x.parse().unwrap());
    let t = std::time::Instant::now();
    let r = simulator::simulate(&pol, &m, &w, &simulator::Options { seed: 1, until_ns: until, timeline: std::env::var("TL").is_ok(), tunables }).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let s = t.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string_pretty(&r).unwrap());
    eprintln!("{:.3}s  {:.2} M events/s {:.2} M switches/s {:.2} M msgs/s makespan {:.3}", s, r.events as f64/s/1e6, r.switches as f64/s/1e6, r.messages as f64/s/1e6, r.makespan_ns as f64/1e9);
}
