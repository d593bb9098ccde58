/work/main/tests/target/release/deps/proc-914128211ceafe36.d: selftests/src/bin/proc.rs

/work/main/tests/target/release/deps/libproc-914128211ceafe36.rmeta: selftests/src/bin/proc.rs

selftests/src/bin/proc.rs:
