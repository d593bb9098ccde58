/work/main/tests/target/release/deps/cores-a9db37ca410d3855.d: selftests/src/bin/cores.rs

/work/main/tests/target/release/deps/libcores-a9db37ca410d3855.rmeta: selftests/src/bin/cores.rs

selftests/src/bin/cores.rs:
