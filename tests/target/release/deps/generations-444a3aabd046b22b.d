/work/main/tests/target/release/deps/generations-444a3aabd046b22b.d: selftests/src/bin/generations.rs

/work/main/tests/target/release/deps/libgenerations-444a3aabd046b22b.rmeta: selftests/src/bin/generations.rs

selftests/src/bin/generations.rs:
