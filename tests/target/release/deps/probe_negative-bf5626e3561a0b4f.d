/work/main/tests/target/release/deps/probe_negative-bf5626e3561a0b4f.d: selftests/src/bin/probe-negative.rs

/work/main/tests/target/release/deps/libprobe_negative-bf5626e3561a0b4f.rmeta: selftests/src/bin/probe-negative.rs

selftests/src/bin/probe-negative.rs:
