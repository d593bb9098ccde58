/work/main/tests/target/release/deps/hang-220755ce5ccfda03.d: selftests/src/bin/hang.rs

/work/main/tests/target/release/deps/libhang-220755ce5ccfda03.rmeta: selftests/src/bin/hang.rs

selftests/src/bin/hang.rs:
