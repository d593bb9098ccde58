/work/main/tests/target/release/deps/hostile-c0a2471d5b15298a.d: selftests/src/bin/hostile.rs

/work/main/tests/target/release/deps/libhostile-c0a2471d5b15298a.rmeta: selftests/src/bin/hostile.rs

selftests/src/bin/hostile.rs:
