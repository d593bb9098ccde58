/work/main/tests/target/release/deps/side_by_side-39266c0a7bb84fe2.d: selftests/src/bin/side-by-side.rs

/work/main/tests/target/release/deps/libside_by_side-39266c0a7bb84fe2.rmeta: selftests/src/bin/side-by-side.rs

selftests/src/bin/side-by-side.rs:
